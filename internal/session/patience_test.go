package session

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/redistest"
)

// TestPatienceEndsInAPause: who has insisted for long enough is told so then, and
// not when the next call has failed, too: the pauses before it get long.
func TestPatienceEndsInAPause(t *testing.T) {
	try := terms(9)
	try.Wait = false
	asks := func(t *protocol.Terms) func(*Semaphore, *Claim) error {
		return func(s *Semaphore, _ *Claim) error {
			_, err := s.Acquire(context.Background(), t, false, nil)
			return err
		}
	}
	for name, test := range map[string]struct {
		ask  func(*Semaphore, *Claim) error
		want time.Duration
	}{
		"try":     {asks(try), TryPatience},
		"acquire": {asks(terms(9)), Patience},
		"renew":   {func(_ *Semaphore, c *Claim) error { return c.Renew(context.Background()) }, Patience},
		"release": {func(_ *Semaphore, c *Claim) error { return c.Release() }, Patience},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				rdb := redis.NewClient(&redis.Options{
					Addr: "127.0.0.1:1", Dialer: w.net.Dialer(redistest.Embedded(w.store)), DialerRetries: 1,
				})
				w.Cleanup(func() { _ = rdb.Close() })
				s := w.openOn(rdb).Semaphore("s")
				held := w.acquire(s, terms(9))
				w.net.Down()
				start := time.Now()
				err := test.ask(s, held)
				if took := time.Since(start); err == nil || took != test.want {
					w.Errorf("after %v: %v; want a failure after %v", took, err, test.want)
				}
			})
		})
	}
}
