package algo

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/classic"
	"github.com/berth-go/berth/dev/internal/measure"
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

func fillBasic(ctx context.Context, s Setup, n int) (func(), error) {
	return func() {}, measure.FillBasic(ctx, s.Redis, key(s.Prefix, s.Name), n, time.Now())
}

func fillFair(ctx context.Context, s Setup, n int) (func(), error) {
	return func() {}, measure.FillFair(ctx, s.Redis, key(s.Prefix, s.Name), n, time.Now())
}
