package claim

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

// TestLookTellsWhatHappened: after a message told of a lease's end, the server's answer decides
// whether its holder was asked to stop, or the lease is over.
func TestLookTellsWhatHappened(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		result protocol.Result
		state  State
		want   error
	}{
		"asked to stop": {protocol.Result{Code: protocol.Evicting, Remaining: ttl}, Lost, &LostError{Cause: Evicted}},
		"over":          {gone(protocol.Expired), Ended, &LostError{Cause: Expired}},
	} {
		l := newLife()
		l.Manual = true
		held(l)
		l.HeardEnd()
		if l.answer(test.result); l.State != test.state || !sameKind(l.Err, test.want) {
			t.Errorf("%s: state %d, error %v", name, l.State, l.Err)
		}
	}
}

// TestPauseThatIsAboutToEnd is told as a millisecond: none would mean that nothing is paused.
func TestPauseThatIsAboutToEnd(t *testing.T) {
	t.Parallel()
	l := newLife()
	asking(l)
	l.answer(protocol.Result{Code: protocol.Busy}, func(a *Answer) { a.Ends = a.Now })
	if why, _ := errors.AsType[*Refusal](l.Err); why == nil || why.Rest != time.Millisecond {
		t.Errorf("refused with %+v", l.Err)
	}
}

// TestRejectedRenewalIsToldOnce, and the lease is then looked at, unless its holder asks again.
func TestRejectedRenewalIsToldOnce(t *testing.T) {
	t.Parallel()
	for _, manual := range []bool{false, true} {
		l := newLife()
		l.Manual = manual
		held(l)
		l.Renew(l.now)
		op := l.sent()
		if effect := l.Rejected(&op, errRejected, l.now); effect != Report || !errors.Is(l.Outcome, errRejected) {
			t.Fatalf("manual %v: effects %b, outcome %v", manual, effect, l.Outcome)
		}
		if next := l.sent(); next.Verb != protocol.Heartbeat {
			t.Errorf("manual %v: %c is sent before it is time", manual, next.Verb)
		}
		l.pass(Timeout)
		if effect := l.Tick(l.now); effect&Report != 0 {
			t.Errorf("manual %v: it is told again: %v", manual, l.Outcome)
		}
	}
}

// TestCancelledWhileItsRequestIsRejected: an earlier copy may have been granted, so the claim is
// still given back.
func TestCancelledWhileItsRequestIsRejected(t *testing.T) {
	t.Parallel()
	l := newLife()
	asking(l)
	op, _ := l.givenUp(time.Second)
	l.Cancel(ErrReleased, l.now)
	if effect := l.Rejected(&op, errRejected, l.now); effect != 0 || l.State != Leaving {
		t.Errorf("effects %b, state %d", effect, l.State)
	}
}

// TestLateRefusalOfAMoveIsNoVerdict: the copy that is under way tells.
func TestLateRefusalOfAMoveIsNoVerdict(t *testing.T) {
	t.Parallel()
	l := newLife()
	detaching(l)
	op, sent := l.givenUp(time.Second)
	if effect := l.late(op, sent, time.Second, gone(protocol.WasMoved)); effect != 0 || l.State != Detaching {
		t.Errorf("effects %b, state %d", effect, l.State)
	}
	// Once the move was given up both ids are released, whichever the lease has.
	l.pass(Timeout)
	l.Tick(l.now)
	if effect := l.late(op, sent, time.Second, moved); effect != 0 || l.State != Leaving {
		t.Errorf("a late answer after that: effects %b, state %d", effect, l.State)
	}
}

// TestRejectedIsNotUnknown: where no copy was sent, callers learn that it did not happen.
func TestRejectedIsNotUnknown(t *testing.T) {
	t.Parallel()
	l := newLife()
	confirming(l)
	op := l.sent()
	if l.Rejected(&op, errRejected, l.now); !errors.Is(l.Err, protocol.ErrRejected) || errors.Is(l.Err, protocol.ErrUnknown) {
		t.Errorf("a grant that is not confirmed: %v", l.Err)
	}
	l = newLife()
	adopting(l)
	l.answer(moved)
	l.Release(l.now)
	op = l.sent()
	if l.Rejected(&op, errRejected, l.now); !errors.Is(l.Outcome, protocol.ErrRejected) || errors.Is(l.Outcome, protocol.ErrUnknown) {
		t.Errorf("a release of what was adopted: %v", l.Outcome)
	}
}

// TestTryIsGivenUpSooner: a request that does not wait in the queue has less time,
// and a call for it leaves time for another one.
func TestTryIsGivenUpSooner(t *testing.T) {
	t.Parallel()
	l := newLife(func(t *protocol.Terms) { t.Wait = false })
	l.Ask(l.now)
	if timeout := l.Patience(l.now); timeout > TryTimeout/2 {
		t.Errorf("a call may take %v", timeout)
	}
	if d := l.Next().Sub(l.now); d != TryTimeout {
		t.Errorf("it is given up after %v", d)
	}
}

// TestUnexplainedSilenceIsExplained: what no call has carried ends with the reason that its owner
// knows, and what a failed call has carried with that failure.
func TestUnexplainedSilenceIsExplained(t *testing.T) {
	t.Parallel()
	full := protocol.NoConnectionFree()
	l := newLife()
	asking(l)
	if l.Unexplained(l.now) {
		t.Error("before its time")
	}
	l.pass(TryTimeout + Timeout)
	if !l.Unexplained(l.now) {
		t.Fatal("it goes on")
	}
	l.Explain(full)
	if l.Tick(l.now); !errors.Is(l.Err, full) {
		t.Errorf("ended with %v", l.Err)
	}

	failed := newLife()
	asking(failed)
	op := failed.sent()
	failed.Failed(&op, errRejected, failed.now)
	if failed.pass(TryTimeout + Timeout); failed.Unexplained(failed.now) {
		t.Error("a failure is forgotten")
	}
}
