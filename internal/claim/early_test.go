package claim

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

// hasty is a life whose request is worth nothing after a minute.
func hasty() *life {
	l := newLife()
	l.Deadline = l.now.Add(time.Minute)
	l.Ask(l.now)
	return l
}

func busy(rest time.Duration) protocol.Result {
	return protocol.Result{Code: protocol.Busy, Rest: rest}
}

// pausedFor has an answer tell of a pause.
func pausedFor(d time.Duration) func(*Answer) {
	return func(a *Answer) { a.Paused, a.Ends = true, a.Now+d.Milliseconds() }
}

// TestHopelessWaitIsRefused: a request with a deadline asks without waiting first, and takes a place
// in the queue only if nothing keeps it out until after that.
func TestHopelessWaitIsRefused(t *testing.T) {
	t.Parallel()
	endless := func(a *Answer) { a.Paused = true }
	for name, test := range map[string]struct {
		rest   time.Duration
		change func(*Answer)
		waits  bool
	}{
		"a rate":                         {time.Minute + 2*time.Millisecond, nil, false},
		"a rate, at the deadline":        {time.Minute + time.Millisecond, nil, true},
		"permits":                        {0, nil, true},
		"a pause":                        {0, pausedFor(time.Hour), false},
		"a rate, and a shorter pause":    {time.Hour, pausedFor(time.Second), false},
		"a pause that is over soon":      {0, pausedFor(time.Second), true},
		"a pause until somebody ends it": {0, endless, true},
	} {
		l := hasty()
		op := l.sent()
		if op.Terms.Wait {
			t.Errorf("%s: it asked for a place first", name)
		}
		l.reply(op, busy(test.rest), func(a *Answer) {
			if test.change != nil {
				test.change(a)
			}
		})
		why, _ := errors.AsType[*Refusal](l.Err)
		switch {
		case test.waits && (l.State != Asking || !l.sent().Terms.Wait):
			t.Errorf("%s: state %d, %v; want a request for a place", name, l.State, l.Err)
		case !test.waits && (l.State != Ended || why == nil || !why.Early || why.Rest < time.Minute):
			t.Errorf("%s: state %d, %+v; want a refusal", name, l.State, l.Err)
		}
	}
}

// TestPlaceIsGivenUpWhenItBecomesHopeless, and what it may have been granted meanwhile goes back, and
// costs nothing.
func TestPlaceIsGivenUpWhenItBecomesHopeless(t *testing.T) {
	t.Parallel()
	l := hasty()
	l.answer(busy(0))
	l.answer(queued)
	l.pass(heartbeat / 3)
	l.Tick(l.now)
	if effect := l.answer(queued, pausedFor(50*time.Second)); l.State != Queued {
		t.Fatalf("effects %b, state %d, error %v: the pause ends in time", effect, l.State, l.Err)
	}
	l.pass(heartbeat / 3)
	l.Tick(l.now)
	if effect := l.answer(queued, pausedFor(time.Hour)); l.State != Queued || effect&Send == 0 {
		t.Fatalf("effects %b, state %d: it may just have been granted, and does not look", effect, l.State)
	}
	effect := l.answer(queued, pausedFor(time.Hour))
	if why, _ := errors.AsType[*Refusal](l.Err); effect != Send|Wake || l.State != Leaving || why == nil || !why.Early || why.Rest != time.Hour {
		t.Fatalf("effects %b, state %d, error %+v", effect, l.State, l.Err)
	}
	l.HeardGrant(7, 1, 3, l.now, 1)
	if op := l.sent(); op.Verb != protocol.Release || op.Costs != protocol.Nothing {
		t.Errorf("sends %+v", op)
	}
	if l.answer(protocol.Result{Code: protocol.Released}); l.State != Ended {
		t.Errorf("state %d", l.State)
	}
}

// TestOwnCostIsNoReasonToGiveUp: a step answers a heartbeat and then grants the request, and its
// answer tells of the rate with what that has cost.
func TestOwnCostIsNoReasonToGiveUp(t *testing.T) {
	t.Parallel()
	l := hasty()
	l.answer(busy(0))
	l.answer(queued)
	l.answer(queued, pausedFor(time.Hour))
	if l.answer(granted(ttl)); l.State != Held {
		t.Errorf("state %d, error %v", l.State, l.Err)
	}
}

// TestLateTrialIsNoVerdict: an answer to a copy of what asked without waiting says nothing to a
// request for a place, and does not take that back.
func TestLateTrialIsNoVerdict(t *testing.T) {
	t.Parallel()
	l := hasty()
	first, sent := l.givenUp(time.Second)
	l.answer(busy(0))
	if effect := l.late(first, sent, time.Second, busy(time.Hour)); l.State != Asking || effect != Send|TakeBack {
		t.Errorf("state %d, effects %b, error %v", l.State, effect, l.Err)
	}
	if !l.sent().Terms.Wait {
		t.Error("it asks without waiting again")
	}
}
