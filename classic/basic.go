package classic

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Basic is the chapter's first semaphore (listings 6.12 and 6.13): one ZSET in
// the order of the clients' clocks, where the first limit members hold.
//
// Known faults, all of them the algorithm's:
//   - A client whose clock is behind, by 10 ms or less, ranks before a holder
//     and takes a permit that is not free. The holder is not told. So does one
//     whose request was overtaken on its way, as it read its clock before.
//   - A client whose clock is ahead by the time-out drops every holder.
//   - An Acquire applies its own time-out to everybody.
//   - A refused try is in the ZSET until it is removed, and meanwhile takes a
//     place from others.
//   - A client that was refused is forgotten: there is no queue.
type Basic struct{ semaphore }

// NewBasic returns the semaphore name with limit permits. It sends nothing;
// clients agree on name and limit by themselves.
func NewBasic(rdb redis.UniversalClient, name string, limit int, opts ...Option) (*Basic, error) {
	s, err := newSemaphore(rdb, name, limit, opts)
	if err != nil {
		return nil, err
	}
	return &Basic{s}, nil
}

// Acquire tries once to get a permit (listing 6.12), in one transaction. With
// ok, id holds it until Release or the time-out. Without, there was no room
// and id has been removed again. After an error id may hold a place until its
// time-out.
func (s *Basic) Acquire(ctx context.Context) (id string, ok bool, err error) {
	if err := made(s != nil && s.rdb != nil); err != nil {
		return "", false, err
	}
	id = s.newID()
	now := s.now()
	var rank *redis.IntCmd
	_, err = s.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		s.dropStale(ctx, p, now)
		p.ZAdd(ctx, s.name, redis.Z{Score: now, Member: id})
		rank = p.ZRank(ctx, s.name, id)
		return nil
	})
	if err != nil {
		return "", false, s.failed("acquire", err)
	}
	if rank.Val() < int64(s.limit) {
		return id, true, nil
	}
	return "", false, s.forget(ctx, id)
}

// Release gives the permit back (listing 6.13). It returns true if it was
// released properly, and false if it had timed out or was released before;
// nothing is left of it either way. True does not say that nobody else held
// it: see the faults of Basic.
func (s *Basic) Release(ctx context.Context, id string) (bool, error) {
	if err := cmp.Or(made(s != nil && s.rdb != nil), validID(id)); err != nil {
		return false, err
	}
	n, err := s.rdb.ZRem(ctx, s.name, id).Result()
	return n > 0, s.failed("release", err)
}

// forget removes a refused try, even if ctx has ended: what stayed would take
// a place until its time-out.
func (s *Basic) forget(ctx context.Context, id string) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	return s.failed("clean up a refused acquire", s.rdb.ZRem(ctx, s.name, id).Err())
}

// dropStale removes whoever came at or before now minus the time-out of this
// client: its own, whatever the others were promised.
func (s *semaphore) dropStale(ctx context.Context, p redis.Pipeliner, now float64) {
	oldest := now - s.timeout.Seconds()
	p.ZRemRangeByScore(ctx, s.name, "-inf", strconv.FormatFloat(oldest, 'f', -1, 64))
}

// failed says what could not be done to which semaphore; nil stays nil.
func (s *semaphore) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("classic: cannot %s (semaphore %q): %w", what, s.name, err)
}
