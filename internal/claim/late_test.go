package claim

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// givenUp has the claim's operation sent, and its call given up after d. The operation is sent
// again. It returns the first copy, and when that was sent.
func (l *life) givenUp(d time.Duration) (first protocol.Op, sent clock.Instant) {
	sent, first = l.now, l.sent()
	l.pass(d)
	l.Failed(&first, protocol.NoAnswer(), l.now)
	l.sent()
	return first, sent
}

// late answers the copy that was sent then, d from now.
func (l *life) late(op protocol.Op, sent clock.Instant, d time.Duration, r protocol.Result) Effect {
	l.pass(d)
	op.Result = r
	a := &Answer{Sent: sent, Got: l.now}
	a.Declared, a.Pin, a.Now = 3, -1, 1_790_000_000_000
	return l.AnsweredLate(&op, a)
}

func due(l *life) { held(l); l.pass(ttl / 3); l.Tick(l.now) }

// TestLateAnswerCounts: what the server did is true however late it tells, and trust in it is
// counted from when the call was sent that it answers.
func TestLateAnswerCounts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from   func(*life)
		result protocol.Result
		state  State
		trust  time.Duration // from when the first copy was sent; 0: none
		effect Effect
	}{
		"a grant":                    {asking, granted(ttl), Held, trusted, Wake | TakeBack},
		"a grant that is over":       {asking, granted(time.Second), Confirming, 0, Send | TakeBack},
		"a place":                    {asking, queued, Queued, 0, TakeBack},
		"a refusal":                  {asking, protocol.Result{Code: protocol.Busy}, Leaving, 0, Send | Wake | TakeBack},
		"gone":                       {asking, gone(protocol.Expired), Asking, 0, 0},
		"a grant to a waiter":        {waiting, granted(heartbeat), Held, heartbeat - heartbeat/100 - time.Millisecond, Wake | TakeBack},
		"a heartbeat":                {waiting, queued, Queued, 0, TakeBack},
		"a waiter that is gone":      {waiting, gone(protocol.Expired), Queued, 0, 0},
		"a renewal":                  {due, renewed, Held, trusted, Wake | Report | TakeBack},
		"a renewal, not done":        {due, gone(protocol.Expired), Held, 0, 0},
		"a renewal of another grant": {due, protocol.Result{Code: protocol.Renewed, Token: 9, Slot: 1, Remaining: ttl}, Held, 0, 0},
		"a first renewal":            {confirming, renewed, Held, trusted, Wake | Report | TakeBack},
		"an adoption":                {adopting, moved, Held, trusted, Wake | TakeBack},
		"an adoption, not done":      {adopting, gone(protocol.Unknown), Adopting, 0, 0},
		"a move":                     {detaching, moved, Ended, 0, Wake | Report},
		"a release":                  {releasing, protocol.Result{Code: protocol.Released}, Ended, 0, Wake | Report},
	} {
		l := newLife()
		test.from(l)
		op, sent := l.givenUp(1500 * time.Millisecond)
		before := l.Trust
		if effect := l.late(op, sent, time.Second, test.result); effect != test.effect || l.State != test.state {
			t.Errorf("%s: state %d with effects %b, want %d with %b", name, l.State, effect, test.state, test.effect)
		}
		if test.trust > 0 && l.Trust != sent.Add(test.trust) {
			t.Errorf("%s: trusted for %v from when it was sent, want %v", name, l.Trust.Sub(sent), test.trust)
		}
		if test.state == Held && test.trust == 0 && l.Trust != before {
			t.Errorf("%s: the trust deadline moved by %v", name, l.Trust.Sub(before))
		}
	}
}

// TestLateAnswersInAnyOrder: the trust deadline never falls, and answers of other requests do
// not matter.
func TestLateAnswersInAnyOrder(t *testing.T) {
	t.Parallel()
	l := newLife()
	due(l)
	first, at1 := l.givenUp(time.Second)
	second, at2 := l.givenUp(time.Second)
	third := l.now
	l.answer(renewed) // of the copy that is in flight
	want := third.Add(trusted)
	if l.Trust != want {
		t.Fatalf("the answer in time: trusted for %v", l.Trust.Sub(third))
	}
	for _, again := range []struct {
		op protocol.Op
		at clock.Instant
	}{{second, at2}, {first, at1}, {first, at1}} {
		if effect := l.late(again.op, again.at, time.Second, renewed); effect != 0 || l.Trust != want || l.State != Held {
			t.Errorf("a late answer to what was sent at %v: effects %b, trust moved by %v", again.at, effect, l.Trust.Sub(want))
		}
	}
	l = newLife()
	asking(l)
	op, sent := l.givenUp(time.Second)
	l.answer(gone(protocol.Expired)) // it asks with a new id
	if effect := l.late(op, sent, time.Second, granted(ttl)); effect != 0 || l.State != Asking {
		t.Errorf("a late grant of an earlier id: effects %b in state %d", effect, l.State)
	}
	l = newLife()
	asking(l)
	op, sent = l.givenUp(time.Second)
	l.late(op, sent, time.Second, queued)
	again := op
	again.Result = granted(ttl)
	if l.Answered(&again, &Answer{Sent: l.now, Got: l.now}); l.State != Held {
		t.Errorf("a grant to the second copy of a request whose first was queued: state %d", l.State)
	}
}

// TestLateAnswerDoesNotRevive what is over: a lost lease, a wait that was cancelled, and a
// renewal that its holder was told has failed.
func TestLateAnswerDoesNotRevive(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from func(*life)
		end  func(*life)
		r    protocol.Result
	}{
		"lost":      {due, func(l *life) { l.now = l.Trust; l.Tick(l.now) }, renewed},
		"cancelled": {asking, func(l *life) { l.Cancel(ErrReleased, l.now) }, granted(ttl)},
		"released":  {due, func(l *life) { l.Release(l.now) }, renewed},
		"reported": {
			func(l *life) { l.Manual = true; held(l); l.Renew(l.now) },
			func(l *life) { l.pass(Timeout); l.Tick(l.now) }, renewed,
		},
	} {
		l := newLife()
		test.from(l)
		op, sent := l.givenUp(time.Second)
		test.end(l)
		state, trust := l.State, l.Trust
		for _, answer := range []func(*protocol.Op, *Answer) Effect{l.AnsweredLate, l.Answered} {
			op.Result = test.r
			if effect := answer(&op, &Answer{Sent: sent, Got: l.now}); effect != 0 || l.State != state || l.Trust != trust {
				t.Errorf("%s: effects %b, state %d, want %d; trust moved by %v", name, effect, l.State, state, l.Trust.Sub(trust))
			}
		}
	}
}

// TestSlowIsNotSilent: a request that is not answered goes on while Redis gives signs of life,
// and ends Timeout after the last; refusals and broken connections are no reason to go on.
func TestSlowIsNotSilent(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from  func(*life)
		cause error // of a first call that failed
		on    bool
	}{
		"asking":                  {asking, nil, true},
		"asking, no answer":       {asking, protocol.NoAnswer(), true},
		"asking, no connection":   {asking, protocol.NoConnectionFree(), true},
		"asking, refused":         {asking, errRefused, false},
		"asking, broken":          {asking, &protocol.Failure{Kind: protocol.ErrUnknown, Err: errors.New("EOF")}, false},
		"asking, without waiting": {func(l *life) { l.Terms.Wait = false; asking(l) }, nil, false},
		"confirming":              {confirming, nil, true},
		"adopting":                {adopting, nil, true},
		"detaching":               {detaching, nil, true},
		"renewing":                {func(l *life) { held(l); l.Renew(l.now) }, nil, true},
		"releasing":               {releasing, nil, false},
	} {
		l := newLife()
		test.from(l)
		op := l.sent()
		if test.cause != nil {
			l.Failed(&op, test.cause, l.now)
			l.sent()
		}
		state, last := l.State, born
		for range 3 {
			if l.now = l.Next(); l.now == clock.Never {
				break
			}
			last = l.now.Add(-time.Second)
			l.Alive = last
			l.Tick(l.now)
		}
		went := l.State == state && l.Next() == last.Add(Timeout)
		if state == Held || state == Leaving { // these stay as they are, and only their callers are told
			went = l.Outcome == nil
		}
		if went != test.on {
			t.Errorf("%s: it goes on: %v, want %v (state %d)", name, went, test.on, l.State)
		}
		if !test.on {
			continue
		}
		l.now = l.Next()
		if l.Tick(l.now); l.State == state && l.Outcome == nil {
			t.Errorf("%s: it goes on although Redis has been silent for %v", name, Timeout)
		}
	}
}

// TestRenewalTakesNoTrust: what is left of a lease near its MaxHold is told by the grant and by each
// renewal, and the slower one knows less of it. If the server's clock was stepped, the later one
// knows more.
func TestRenewalTakesNoTrust(t *testing.T) {
	t.Parallel()
	const most, slow = 10 * time.Second, time.Second
	for left, keeps := range map[time.Duration]bool{most - slow: true, most - slow - 2: true, most / 2: false} {
		l := newLife(func(t *protocol.Terms) { t.MaxHold = most })
		l.Ask(l.now)
		l.answer(granted(most))
		before, sent := l.Trust, l.now
		l.Renew(l.now)
		l.answer(renewal(left), func(a *Answer) { a.Got = a.Sent.Add(slow) })
		want := trust(sent, left)
		if keeps {
			want = before
		}
		if l.State != Held || l.Trust != want {
			t.Errorf("%v left: state %d, trusted for %v, want %v", left, l.State, l.Trust.Sub(sent), want.Sub(sent))
		}
	}
}
