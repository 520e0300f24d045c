package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestFirstRequestsKeepTheirOrder: what is asked for while the session opens is granted in the order
// in which it was asked for, and not in that in which goroutines wake.
func TestFirstRequestsKeepTheirOrder(t *testing.T) {
	inBubble(t, func(s *server) {
		s.on("info", func(_ context.Context, _ redis.Cmder, pass func() error) error {
			<-time.After(mostOpening / 2)
			return pass()
		})
		const n = 50
		tokens := make([]int64, n)
		var all sync.WaitGroup
		of := *terms(true)
		of.Limit = n
		for i := range n {
			all.Go(func() {
				r, err := s.Semaphore("n").Acquire(context.Background(), &of, false, nil)
				if err != nil {
					t.Error(err)
					return
				}
				_, lease := r.Lease()
				tokens[i] = lease.Token
			})
			<-time.After(time.Millisecond)
		}
		all.Wait()
		if !slices.IsSorted(tokens) {
			t.Errorf("granted in another order: %v", tokens)
		}
	})
}

// TestCancelWhileTheSessionOpens: what was not sent yet is not sent any more, and its caller does not
// wait.
func TestCancelWhileTheSessionOpens(t *testing.T) {
	inBubble(t, func(s *server) {
		s.on("info", func(_ context.Context, _ redis.Cmder, pass func() error) error {
			<-time.After(mostOpening / 2)
			return pass()
		})
		ctx, cancel := context.WithTimeout(context.Background(), mostOpening/4)
		defer cancel()
		_, err := s.Semaphore("n").Acquire(ctx, terms(true), false, nil)
		if took := time.Since(s.begun); !errors.Is(err, context.DeadlineExceeded) || took != mostOpening/4 {
			t.Errorf("%v after %v", err, took)
		}
		<-time.After(time.Minute)
		if n := len(s.sent("evalsha")); n > 0 {
			t.Errorf("%d calls were made", n)
		}
	})
}

// TestSlowOpeningHoldsNobodyUp: who has not heard of a subscription after a while goes on without it.
func TestSlowOpeningHoldsNobodyUp(t *testing.T) {
	inBubble(t, func(s *server) {
		s.on("info", func(ctx context.Context, _ redis.Cmder, _ func() error) error {
			<-ctx.Done()
			return ctx.Err()
		})
		s.acquire()
		if took := time.Since(s.begun); took != mostOpening {
			t.Errorf("it took %v", took)
		}
	})
}
