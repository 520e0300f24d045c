package algo

import (
	"context"
	"time"

	"github.com/berth-go/berth/classic"
	"github.com/berth-go/berth/internal/measure"
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

func openBasic(s Setup) (Client, error) {
	return newClassicClient(classic.NewBasic(s.Redis, key(s.Prefix, s.Name), s.Limit, s.options()...))
}

func openFair(s Setup) (Client, error) {
	return newClassicClient(classic.NewFair(s.Redis, key(s.Prefix, s.Name), s.Limit, s.options()...))
}

func openUnderLock(s Setup) (Client, error) {
	return newClassicClient(classic.NewFairUnderLock(s.Redis, key(s.Prefix, s.Name), s.Limit, s.options()...))
}

func newClassicClient[S semaphore](sem S, err error) (Client, error) {
	if err != nil {
		return nil, err
	}
	return classicClient{sem}, nil
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

// Acquire implements Client. In the chapter a client is not told of a loss, and holders do not
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

// Close implements Client. It does nothing, as the chapter's clients have no state.
func (classicClient) Close() {}

// fillBasic writes what n acquires of Basic would leave in Redis.
func fillBasic(ctx context.Context, s Setup, n int) (func(), error) {
	now := float64(time.Now().UnixMilli()) / 1000
	return func() {}, measure.AddMembers(ctx, s.Redis, key(s.Prefix, s.Name), n, func(int) float64 { return now })
}

// fillFair writes what n acquires of Fair would leave in Redis. Making the acquires would
// take too long: each costs O(n), which is what the scenario shows.
func fillFair(ctx context.Context, s Setup, n int) (func(), error) {
	if _, err := fillBasic(ctx, s, n); err != nil {
		return nil, err
	}
	name := key(s.Prefix, s.Name)
	if err := s.Redis.Set(ctx, name+":counter", n, 0).Err(); err != nil {
		return nil, err
	}
	return func() {}, measure.AddMembers(ctx, s.Redis, name+":owner", n, func(i int) float64 { return float64(i + 1) })
}
