package peer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth/internal/judge"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// planted is a semaphore in memory with so many permits, whatever its limit.
func planted(permits int) *Peer {
	free := make(chan struct{}, permits)
	return &Peer{Key: "planted", Title: "planted", Kind: Semaphore, Queues: true, Connect: func(string, string) (*Client, error) {
		return &Client{Close: func() {}, Semaphore: func(string, Shape) (Acquire, error) {
			return func(ctx context.Context) (Release, error) {
				select {
				case free <- struct{}{}:
					return func() error { <-free; return nil }, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}, nil
		}}, nil
	}}
}

func driver8(t *testing.T, p *Peer) Driver {
	t.Helper()
	d, err := p.Drive(t.Context(), "", "", Shape{Name: "x", Clients: 2, Workers: 8, Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// What is measured is what was held, not what should have been.
func TestSpinFindsOutHowManyWereHeld(t *testing.T) {
	t.Parallel()
	for _, permits := range []int{3, 5} {
		synctest.Test(t, func(t *testing.T) {
			var count Count
			out, err := driver8(t, planted(permits)).Spin(t.Context(), Load{For: 995 * time.Millisecond, Hold: 10 * time.Millisecond, GoTimers: true, Times: true, Count: &count})
			if err != nil {
				t.Fatal(err)
			}
			if got := judge.Limit(out.Beliefs, permits).Held; got != permits || count.Most() != int64(permits) {
				t.Errorf("most held: %d believed, %d counted, want %d", got, count.Most(), permits)
			}
			if want := permits * 100; out.Pairs != want || len(out.Beliefs) != want || out.Took != time.Second {
				t.Errorf("%d pairs, %d beliefs in %v, want %d in 1s", out.Pairs, len(out.Beliefs), out.Took, want)
			}
		})
	}
}

func TestSpinOfNothingIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := planted(1)
		d := driver8(t, p)
		c, err := p.Connect("", "")
		if err != nil {
			t.Fatal(err)
		}
		acquire, _ := c.Semaphore("x", Shape{Limit: 1})
		if _, err := acquire(t.Context()); err != nil { // and nobody gives it back
			t.Fatal(err)
		}
		if out, err := d.Spin(t.Context(), Load{For: time.Second}); err == nil {
			t.Errorf("%+v without an error", out)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begin := time.Now()
		if _, err := d.Spin(ctx, Load{For: time.Second}); err == nil || time.Since(begin) != 0 {
			t.Errorf("cancelled: %v after %v", err, time.Since(begin))
		}
	})
}

func TestPassMeasuresTheHandOffAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		took, err := driver8(t, planted(1)).Pass(t.Context(), 5, 3*time.Millisecond, time.Second)
		if err != nil || len(took) != 5 {
			t.Fatalf("%v, %v", took, err)
		}
		for _, d := range took {
			if d != 0 { // no time passes in the bubble but the pause
				t.Errorf("a hand-off took %v", d)
			}
		}
	})
}

func TestPassEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := driver8(t, planted(1)).Pass(ctx, 1000, 3*time.Millisecond, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
}

// One lock library misses releases now and then. It loses its figure, and the others keep theirs.
func TestPassEndsWhereAWaiterIsNeverTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		deaf := &Peer{Key: "deaf", Title: "deaf", Connect: func(string, string) (*Client, error) {
			taken := make(chan struct{}, 1)
			return &Client{Close: func() {}, Semaphore: func(string, Shape) (Acquire, error) {
				return func(ctx context.Context) (Release, error) {
					select {
					case taken <- struct{}{}:
						return func() error { <-taken; return nil }, nil
					default: // nothing ends this wait but its context
						<-ctx.Done()
						return nil, ctx.Err()
					}
				}, nil
			}}, nil
		}}
		d, err := deaf.Drive(t.Context(), "", "", Shape{Name: "x", Clients: 1, Workers: 2, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if took, err := d.Pass(t.Context(), 3, 3*time.Millisecond, time.Second); !errors.Is(err, errNotHandedOver) || len(took) > 0 {
			t.Errorf("%v, %v", took, err)
		}
	})
}

func TestKeysOfContestantsAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range All() {
		if p.Key == "" || p.Title == "" || p.About == "" || seen[p.Key] {
			t.Errorf("contestant %+v", p)
		}
		seen[p.Key] = true
		if (p.Connect == nil) == (p.Open == nil) {
			t.Errorf("%s: one way to open it, please", p.Key)
		}
	}
}

// TestExactPauseIsNotShorter: nor does one that was waited for end the next.
func TestExactPauseIsNotShorter(t *testing.T) {
	pause, stop, err := exactPause()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{time.Millisecond, 3 * time.Millisecond, time.Millisecond} {
		begin := time.Now()
		if err := pause(d); err != nil || time.Since(begin) < d {
			t.Errorf("%v lasted %v, error %v", d, time.Since(begin), err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
