package algo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/classic"
)

// semaphore is the interface of the chapter's semaphores. Unlike classic.Driver it gives
// the ids of permits, with which a client can ask about them.
type semaphore interface {
	Acquire(ctx context.Context) (id string, ok bool, err error)
	Release(ctx context.Context, id string) (bool, error)
}

// refresher is a semaphore whose permits can be refreshed. Refreshing also tells whether
// a permit is still held.
type refresher interface {
	Refresh(ctx context.Context, id string) (bool, error)
}

// classicClient implements Client with one of the chapter's semaphores.
type classicClient struct{ semaphore }

// opener returns the Open of one of them.
func opener[S semaphore](newSemaphore func(redis.UniversalClient, string, int, ...classic.Option) (S, error)) func(Setup) (Client, error) {
	return func(s Setup) (Client, error) {
		sem, err := newSemaphore(s.Redis, key(s.Prefix, s.Name), s.Limit, s.options()...)
		if err != nil {
			return nil, err
		}
		return classicClient{sem}, nil
	}
}

// options returns the chapter's parameters. The lock has the time-out of the permits, as
// in the chapter, where both are 10 s.
func (s Setup) options() []classic.Option {
	off := s.ClockOff
	return []classic.Option{
		classic.WithTimeout(s.Timeout),
		classic.WithLockTimeout(s.Timeout),
		classic.WithClock(func() time.Time { return time.Now().Add(off) }),
	}
}

// Acquire has no queue. In the chapter a client is not told of a loss, and holders do not
// watch the time. Its counter numbers requests and not grants, so the Token is 0.
func (c classicClient) Acquire(ctx context.Context, _ func()) (*Permit, bool, error) {
	id, ok, err := c.semaphore.Acquire(ctx)
	if err != nil || !ok {
		return nil, false, err
	}
	return &Permit{
		Release: func(ctx context.Context) (bool, error) { return c.Release(ctx, id) },
		Check:   func(ctx context.Context) bool { return c.check(ctx, id) },
		Until:   func() time.Time { return time.Time{} },
	}, true, nil
}

// check refreshes the permit, which is how the chapter notices a loss.
func (c classicClient) check(ctx context.Context, id string) bool {
	r, ok := c.semaphore.(refresher)
	if !ok {
		return true
	}
	held, err := r.Refresh(ctx, id)
	return held || err != nil
}

// Close does nothing, as the chapter's clients have no state.
func (classicClient) Close() {}

// fillBasic writes what n acquires of classic.Basic would leave. Making the acquires instead would
// take hours where the cost of each grows with the holders.
func fillBasic(ctx context.Context, s Setup, n int) (func(), error) {
	at := float64(time.Now().Add(s.ClockOff).UnixMilli()) / 1000
	return func() {}, addMembers(ctx, s.Redis, key(s.Prefix, s.Name), n, func(int) float64 { return at })
}

// fillFair is fillBasic for classic.Fair.
func fillFair(ctx context.Context, s Setup, n int) (func(), error) {
	done, err := fillBasic(ctx, s, n)
	key := key(s.Prefix, s.Name)
	return done, errors.Join(err, s.Redis.Set(ctx, key+":counter", n, 0).Err(),
		addMembers(ctx, s.Redis, key+":owner", n, func(i int) float64 { return float64(i + 1) }))
}

// addMembers writes n members, as long as the identifiers of package classic, into a sorted set.
func addMembers(ctx context.Context, rdb redis.Cmdable, key string, n int, score func(i int) float64) error {
	const batch = 1000
	for from := 0; from < n; from += batch {
		var members []redis.Z
		for i := from; i < min(n, from+batch); i++ {
			members = append(members, redis.Z{Score: score(i), Member: fmt.Sprintf("00000000-0000-4000-8000-%012d", i)})
		}
		if err := rdb.ZAdd(ctx, key, members...).Err(); err != nil {
			return err
		}
	}
	return nil
}
