package berthpool

import (
	"context"
	"sync"
	"time"
)

// bare is a context that ends when another does, for the same reason, and has none of its
// values: a lease remembers the context of its Acquire, and a pooled lease is kept for others.
type bare struct {
	done     chan struct{}
	deadline time.Time // zero: there is none

	mu  sync.Mutex
	err error // guarded by mu
}

// newBare returns a bare context. stop ends its interest in ctx, to which it refers until then.
func newBare(ctx context.Context) (b *bare, stop func() bool) {
	b = &bare{done: make(chan struct{})}
	b.deadline, _ = ctx.Deadline()
	return b, context.AfterFunc(ctx, func() { b.end(whyEnded(ctx)) })
}

func (b *bare) end(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = why
	close(b.done)
}

// Deadline implements context.Context.
func (b *bare) Deadline() (time.Time, bool) { return b.deadline, !b.deadline.IsZero() }

// Done implements context.Context.
func (b *bare) Done() <-chan struct{} { return b.done }

// Err implements context.Context.
func (b *bare) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Value implements context.Context.
func (b *bare) Value(any) any { return nil }
