package protocol

import (
	"context"
	"time"
)

// Bounded calls f and returns its result. After d, or when ctx ends, it returns an error of
// unknown outcome instead, and leaves f to end by itself: a Redis client may have no
// time-outs.
func Bounded[T any](ctx context.Context, d time.Duration, f func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		value, err := f(ctx)
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, NoAnswer()
	}
}
