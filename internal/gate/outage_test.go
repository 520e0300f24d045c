package gate

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
)

// TestLook: what is found out, and what it makes of Redis.
func TestLook(t *testing.T) {
	for name, c := range map[string]struct {
		found error
		heard bool // another request is answered meanwhile
		away  bool
	}{
		"reached":         {nil, false, false},
		"away":            {berth.ErrUnreachable, false, true},
		"away, yet heard": {berth.ErrUnreachable, true, false},
		"not known":       {errors.New("no descriptor left"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				found, verdict := make(chan error), make(chan error)
				o := &outage{
					log: slog.New(slog.DiscardHandler), open: true,
					reach: func(context.Context) error { return <-found },
				}
				o.over() // long before
				for range 3 {
					go func() { verdict <- o.unanswered(t.Context()) }()
				}
				synctest.Wait()
				if c.heard {
					o.over()
				}
				found <- c.found // once, for all
				for range 3 {
					if err := <-verdict; (err != nil) != c.away {
						t.Errorf("the verdict is %v", err)
					}
				}
				if err := o.known(t.Context()); (err != nil) != c.away {
					t.Errorf("then it is known that %v", err)
				}
			})
		})
	}
}

// TestLooksAreRare: requests without an answer open a connection a second.
func TestLooksAreRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		o := &outage{log: slog.New(slog.DiscardHandler), reach: func(context.Context) error { looks++; return nil }}
		for range 100 {
			if err := o.unanswered(t.Context()); err != nil {
				t.Error(err)
			}
			<-time.After(50 * time.Millisecond)
		}
		if looks != 5 {
			t.Errorf("%d looks in 5 s", looks)
		}
	})
}

// A request that looks again during an outage, and is refused in any case, waits for Redis no
// longer than another does; one that may pass waits for the result.
func TestLookingAgainTakesNoLongerThanAnAnswer(t *testing.T) {
	for _, open := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const look, patience = 3 * time.Second, time.Second
			o := &outage{
				log: slog.New(slog.DiscardHandler), open: open, patience: patience,
				reach: func(context.Context) error { <-time.After(look); return berth.ErrUnreachable },
			}
			_ = o.unanswered(t.Context())
			<-time.After(look + lookEvery)
			for _, want := range []time.Duration{patience, 0} { // the second comes while the first's look is under way
				if open {
					want = min(want*3, look)
				}
				began := time.Now()
				if err := o.known(t.Context()); err == nil || time.Since(began) != want {
					t.Errorf("fails open %v: %v after %v, want %v", open, err, time.Since(began), want)
				}
			}
			<-time.After(look)
		})
	}
}
