package fault_test

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// wiretap copies all script calls that pass the lab's network.
type wiretap struct {
	mu    sync.Mutex
	calls []tapped // guarded by mu
}

// tapped is a call with the time at which it passed.
type tapped struct {
	redistest.Command
	at time.Time
}

func (l *lab) tap() *wiretap {
	w := &wiretap{}
	l.net.Inject(redistest.Rule{Times: -1, Match: func(c redistest.Command) bool {
		if redistest.IsScript(c) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls = append(w.calls, tapped{c, time.Now()})
		}
		return false
	}})
	return w
}

func (w *wiretap) all() []tapped {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]tapped(nil), w.calls...)
}

// digits is what a time would be sent as.
var digits = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)

// near reports whether text is the instant at, give or take slack, in any unit.
func near(text string, at time.Time, slack time.Duration) bool {
	if !digits.MatchString(text) {
		return false
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return false
	}
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond} {
		off := n*float64(unit) - float64(at.UnixNano())
		if max(off, -off) <= float64(slack) {
			return true
		}
	}
	return false
}

// everyOperation uses each operation of the library at least once.
func everyOperation(l *lab) {
	l.Helper()
	c := l.faulty()
	s := l.sem(c, 2, berth.MaxHold(time.Hour), berth.Label("job"), berth.QueueLimit(9))
	first, second := l.Hold(s), l.Hold(s, berth.HeadStart(time.Second))
	if err := l.Renew(first); err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.Ctx)
	waiting := l.queued(ctx, s, 1)
	if _, err := s.TryAcquire(l.Ctx); err == nil {
		l.Fatal("TryAcquire succeeded in a full semaphore")
	}
	<-time.After(l.TTL) // renewals and heartbeats
	cancel()
	testenv.Receive(l, "end of the wait", waiting)
	in := l.Patient(berthadmin.Of(c))
	for _, err := range []error{
		in.Resize(l.Ctx, "s", 3), in.Pin(l.Ctx, "s", 3), in.Unpin(l.Ctx, "s"),
		in.Pause(l.Ctx, "s"), in.Resume(l.Ctx, "s"), in.Evict(l.Ctx, "s", second.ID()),
	} {
		if err != nil {
			l.Error(err)
		}
	}
	_ = second.Release() // evicted
	l.Release(first)
}

// TestNoRequestCarriesWallClock: the client's clock, which may be wrong by hours,
// never reaches the server. The one time in a request is the latest at which it
// may be executed, and that is the server's own time carried forward.
func TestNoRequestCarriesWallClock(t *testing.T) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		inBubble(t, func(l *lab) {
			// The server is five hours ahead, so its time cannot be mistaken.
			const ahead = 5 * time.Hour
			l.Embedded.SetTime(time.Now().Add(ahead))
			stop := again(time.Millisecond, func() { l.Embedded.SetTime(time.Now().Add(ahead)) })
			defer stop()
			tap := l.tap()
			everyOperation(l)
			checkTimes(l, tap, ahead)
		})
	})
	t.Run("real", func(t *testing.T) {
		onServer(t, redistest.Start(t), func(l *lab) {
			l.shorter()
			tap := l.tap()
			everyOperation(l)
			checkTimes(l, tap, 0)
		})
	})
}

// checkTimes looks at every argument of every call for a time. The server's
// clock is ahead of the client's.
func checkTimes(l *lab, w *wiretap, ahead time.Duration) {
	l.Helper()
	seen, bounded := map[string]bool{}, 0
	for _, call := range w.all() {
		bound := 3 + redistest.Declares(call.Command) // the place of the latest time of execution
		for _, v := range testenv.Verbs(call.Command) {
			seen[v] = true
		}
		if call.Name() == "EVAL" {
			call.Command[1] = "" // the script
		}
		for i, arg := range call.Command {
			switch {
			case i == bound && arg != "0" && !testenv.IsLook(call.Command): // a look changes nothing, and has none
				bounded++
				if !near(arg, call.at.Add(ahead), 10*time.Second) {
					l.Errorf("bound %s is not the server's time: %q", arg, call.Command)
				}
			case near(arg, call.at, 24*time.Hour), near(arg, call.at.Add(ahead), 24*time.Hour):
				l.Errorf("argument %d is a time: %q", i, call.Command)
			}
		}
	}
	for v := range strings.SplitSeq("AHRLEDPZ", "") {
		if !seen[v] {
			l.Errorf("no call with operation %s was seen", v)
		}
	}
	if bounded == 0 {
		l.Error("no call had a bound")
	}
}
