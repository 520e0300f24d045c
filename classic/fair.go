package classic

import (
	"cmp"
	"context"

	"github.com/redis/go-redis/v9"
)

// Fair is the chapter's second semaphore (listings 6.14 to 6.16). A counter
// orders the clients, so that small differences of their clocks decide only
// when a permit times out.
//
// Known faults, all of them the algorithm's:
//   - An Acquire is two transactions. If A draws its number before B, but B
//     adds and ranks itself before A, both hold, whatever the limit. Neither is
//     told, not even by Release or Refresh, because both are in the ZSETs.
//   - Every Acquire rewrites the owner ZSET (ZINTERSTORE): its cost grows with
//     the holders, and Redis does nothing else meanwhile.
//   - An Acquire applies its own time-out to everybody, by its own clock.
//   - A client that was refused is forgotten and comes back with a later number,
//     so newcomers may overtake it, again and again.
//   - Refresh does not know the time-out: see there.
//   - If the counter is evicted, deleted, or set back by a failover, the numbers
//     start again below those of holders, and newcomers rank before them. Above
//     2^53 they are scores that are no longer exact.
//
// FairUnderLock fixes the first one.
type Fair struct {
	semaphore
	owner, counter string // keys
}

// NewFair returns the semaphore name with limit permits. It sends nothing;
// clients agree on name and limit by themselves.
func NewFair(rdb redis.UniversalClient, name string, limit int, opts ...Option) (*Fair, error) {
	s, err := newSemaphore(rdb, name, limit, opts)
	if err != nil {
		return nil, err
	}
	return &Fair{s, name + ":owner", name + ":counter"}, nil
}

// Acquire tries once to get a permit (listing 6.14). With ok, id holds it until
// Release or until the time-out after the last Refresh. Without, there was no
// room and id has been removed again; its number is lost. After an error id may
// hold a place until its time-out.
func (s *Fair) Acquire(ctx context.Context) (id string, ok bool, err error) {
	if err := made(s != nil && s.rdb != nil); err != nil {
		return "", false, err
	}
	id = s.newID()
	// The chapter reads the clock once: the score says when the try began.
	now := s.now()
	number, err := s.draw(ctx, now)
	if err != nil {
		return "", false, s.failed("acquire", err)
	}
	// The race of section 6.3.4 is here: others draw and rank between the two.
	rank, err := s.enter(ctx, id, now, number)
	if err != nil {
		return "", false, s.failed("acquire", err)
	}
	if rank < int64(s.limit) {
		return id, true, nil
	}
	return "", false, s.forget(ctx, id)
}

// draw drops who timed out from both ZSETs and takes the next number.
func (s *Fair) draw(ctx context.Context, now float64) (int64, error) {
	var number *redis.IntCmd
	_, err := s.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		s.dropStale(ctx, p, now)
		// Weight 1 keeps the numbers, weight 0 takes no more than the
		// membership from the times. This is the step that costs O(holders).
		p.ZInterStore(ctx, s.owner, &redis.ZStore{
			Keys:    []string{s.owner, s.name},
			Weights: []float64{1, 0},
		})
		number = p.Incr(ctx, s.counter)
		return nil
	})
	return number.Val(), err
}

// enter adds id to both ZSETs and returns its place by number, from 0.
func (s *Fair) enter(ctx context.Context, id string, now float64, number int64) (int64, error) {
	var rank *redis.IntCmd
	_, err := s.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, s.name, redis.Z{Score: now, Member: id})
		p.ZAdd(ctx, s.owner, redis.Z{Score: float64(number), Member: id})
		rank = p.ZRank(ctx, s.owner, id)
		return nil
	})
	return rank.Val(), err
}

// Release gives the permit back (listing 6.15). It returns true if it was
// released properly, and false if it had timed out or was released before;
// nothing is left of it either way. True does not say that the limit was kept:
// see the faults of Fair.
func (s *Fair) Release(ctx context.Context, id string) (bool, error) {
	if err := cmp.Or(made(s != nil && s.rdb != nil), validID(id)); err != nil {
		return false, err
	}
	n, err := s.remove(ctx, id)
	return n > 0, s.failed("release", err)
}

// Refresh makes the time-out start again from now (listing 6.16). It returns
// true if the permit is still held, and false if it had been lost; it is
// released then. As in the chapter, a permit is lost when somebody's Acquire
// has dropped it, not when its time is over: Refresh after the time-out
// succeeds if nobody came by. After an error the permit may be held or not.
func (s *Fair) Refresh(ctx context.Context, id string) (bool, error) {
	if err := cmp.Or(made(s != nil && s.rdb != nil), validID(id)); err != nil {
		return false, err
	}
	added, err := s.rdb.ZAdd(ctx, s.name, redis.Z{Score: s.now(), Member: id}).Result()
	if err != nil {
		return false, s.failed("refresh", err)
	}
	if added == 0 {
		return true, nil
	}
	// New in the ZSET means that it was gone. It must go again, or it would
	// stay among the times without being an owner.
	return false, s.forget(ctx, id)
}

// forget removes what must not stay, even if ctx has ended.
func (s *Fair) forget(ctx context.Context, id string) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	_, err := s.remove(ctx, id)
	return s.failed("clean up", err)
}

// remove takes id out of both ZSETs. The times alone would not do: an Acquire
// between its two transactions has matched the ZSETs already and would still
// rank behind the one that left.
func (s *Fair) remove(ctx context.Context, id string) (int64, error) {
	var n *redis.IntCmd
	_, err := s.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		n = p.ZRem(ctx, s.name, id)
		p.ZRem(ctx, s.owner, id)
		return nil
	})
	return n.Val(), err
}
