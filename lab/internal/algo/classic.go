package algo

import (
	"context"
	"time"

	"github.com/berth-go/berth/classic"
	"github.com/berth-go/berth/internal/measure"
)

// semaphore is what the chapter's semaphores have in common. It is more than
// classic.Driver: a permit that can be asked for must be known by its id.
type semaphore interface {
	Acquire(ctx context.Context) (id string, ok bool, err error)
	Release(ctx context.Context, id string) (bool, error)
}

// refresher is one whose permits can be kept alive, and asked for thereby.
type refresher interface {
	Refresh(ctx context.Context, id string) (bool, error)
}

// classicClient is a client of one of the chapter's semaphores.
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

// options are the chapter's parameters. The lock gets the time-out of the permits:
// the chapter has 10 s for both.
func (s Setup) options() []classic.Option {
	off := s.ClockOff
	return []classic.Option{
		classic.WithTimeout(s.Timeout),
		classic.WithLockTimeout(s.Timeout),
		classic.WithClock(func() time.Time { return time.Now().Add(off) }),
	}
}

// Acquire implements Client. The chapter tells nobody of a loss, and its holders do not watch the
// time; what it counts are requests.
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

// check refreshes, which is the chapter's way to hear of a loss.
func (c classicClient) check(ctx context.Context, id string) bool {
	r, ok := c.semaphore.(refresher)
	if !ok {
		return true
	}
	held, err := r.Refresh(ctx, id)
	return held || err != nil
}

// Close implements Client: the chapter's clients have nothing to give up.
func (classicClient) Close() {}

// fillBasic writes what n acquires of Basic leave behind.
func fillBasic(ctx context.Context, s Setup, n int) (func(), error) {
	now := float64(time.Now().UnixMilli()) / 1000
	return func() {}, measure.AddMembers(ctx, s.Redis, key(s.Prefix, s.Name), n, func(int) float64 { return now })
}

// fillFair writes what n acquires of Fair leave behind. Really making them
// would cost O(n) each, which is what is to be measured, not to be waited for.
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
