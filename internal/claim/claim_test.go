package claim

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// The life of a claim as tables: from a state that a few events lead to, one more
// event leads to another state, asks for effects, and sets the next deadline.
const (
	ttl       = 30 * time.Second
	heartbeat = 10 * time.Second
	born      = clock.Instant(1000 * time.Hour)
)

// life is a claim under test, and the time.
type life struct {
	*Claim
	now clock.Instant
	ids int
}

func newLife(change ...func(*protocol.Terms)) *life {
	terms := &protocol.Terms{Wait: true, Weight: 1, TTL: ttl, Heartbeat: heartbeat, QueueLimit: 100, Limit: 3}
	for _, f := range change {
		f(terms)
	}
	l := &life{now: born}
	c := Make("name", terms, func() string { l.ids++; return fmt.Sprintf("chan.secret-%d", l.ids) })
	l.Claim = &c
	return l
}

// sent has the claim's operation sent now.
func (l *life) sent() protocol.Op {
	op, ok := l.Op(l.now)
	if !ok {
		panic("nothing to send")
	}
	return op
}

// answer has the operation that the claim wants sent now, and answered after 2 ms.
func (l *life) answer(r protocol.Result, change ...func(*Answer)) Effect {
	op := l.sent()
	return l.reply(op, r, change...)
}

// reply answers an operation that was sent now, after 2 ms.
func (l *life) reply(op protocol.Op, r protocol.Result, change ...func(*Answer)) Effect {
	op.Result = r
	a := &Answer{Sent: l.now, Got: l.now.Add(2 * time.Millisecond)}
	a.Declared, a.Pin, a.Now = 3, -1, 1_790_000_000_000
	for _, f := range change {
		f(a)
	}
	l.now = a.Got
	return l.Answered(&op, a)
}

func (l *life) pass(d time.Duration) { l.now = l.now.Add(d) }

func granted(left time.Duration) protocol.Result {
	return protocol.Result{Code: protocol.Granted, Token: 7, Slot: 1, Remaining: left}
}

func gone(r protocol.Reason) protocol.Result {
	return protocol.Result{Code: protocol.Gone, Reason: r}
}

var (
	queued  = protocol.Result{Code: protocol.Queued, Ahead: 2}
	renewed = renewal(ttl)
	moved   = protocol.Result{Code: protocol.Moved, Token: 7, Slot: 1, Remaining: ttl, Weight: 2, TTL: ttl, Label: "job"}

	errUnknown  = &protocol.Failure{Kind: protocol.ErrUnknown, Err: errors.New("reset")}
	errRefused  = &protocol.Failure{Kind: protocol.ErrRefused, Err: errors.New("loading")}
	errRejected = &protocol.Failure{Kind: protocol.ErrRejected, Err: errors.New("noperm")}
)

// The states, each as events lead to it.
func asking(l *life) { l.Ask(l.now); l.sent() }

func waiting(l *life) { l.Ask(l.now); l.answer(queued) }

func held(l *life) { l.Ask(l.now); l.answer(granted(ttl)); l.Unseen = false }

func confirming(l *life) { l.Ask(l.now); l.answer(granted(time.Millisecond)) }

func adopting(l *life) { l.Adopt("chan.handle", l.now); l.sent() }

func detaching(l *life) { held(l); l.Detach("chan.handle", l.now); l.sent() }

func lost(l *life) { held(l); l.now = l.Trust; l.Tick(l.now) }

func releasing(l *life) { held(l); l.pass(time.Second); l.Release(l.now); l.sent() }

type step struct {
	name   string
	from   func(*life)
	event  func(*life) Effect
	state  State
	effect Effect
	err    error // of the claim, to errors.Is; nil: none
}

var steps = []step{
	{"granted", asking, func(l *life) Effect { return l.answer(granted(ttl)) }, Held, Wake, nil},
	{"granted for too short a time", asking, func(l *life) Effect { return l.answer(granted(time.Millisecond)) }, Confirming, Send, nil},
	{"queued", asking, func(l *life) Effect { return l.answer(queued) }, Queued, 0, nil},
	{"busy", asking, func(l *life) Effect { return l.answer(protocol.Result{Code: protocol.Busy}) }, Ended, Wake | Report, &Refusal{}},
	{"busy, with more to be taken out", asking, func(l *life) Effect {
		return l.answer(protocol.Result{Code: protocol.Busy}, func(a *Answer) { a.More = true })
	}, Asking, Send, nil},
	{"busy, and a copy on its way", asking, func(l *life) Effect {
		l.Failed(&protocol.Op{Verb: protocol.Acquire}, errUnknown, l.now)
		return l.answer(protocol.Result{Code: protocol.Busy})
	}, Leaving, Send | Wake, &Refusal{}},
	{"expired", asking, func(l *life) Effect { return l.answer(gone(protocol.Expired)) }, Asking, Send, nil},
	{"no answer", asking, func(l *life) Effect { l.pass(Timeout); return l.Tick(l.now) }, Leaving, Send | Wake, protocol.ErrUnknown},
	{"refused", asking, func(l *life) Effect { return l.Failed(&protocol.Op{Verb: protocol.Acquire}, errRefused, l.now) }, Asking, Send, nil},
	{"rejected", asking, func(l *life) Effect { return l.Rejected(&protocol.Op{Verb: protocol.Acquire}, errRejected, l.now) }, Ended, Wake | Report, errRejected},
	{"rejected after an unknown outcome", asking, func(l *life) Effect {
		l.Failed(&protocol.Op{Verb: protocol.Acquire}, errUnknown, l.now)
		return l.Rejected(&protocol.Op{Verb: protocol.Acquire}, errRejected, l.now)
	}, Leaving, Send | Wake, errRejected},
	{"full, and more has run out", asking, func(l *life) Effect {
		return l.answer(protocol.Result{Code: protocol.Full}, func(a *Answer) { a.More = true })
	}, Asking, Send, nil},
	{"cancelled", asking, func(l *life) Effect { return l.Cancel(ErrReleased, l.now) }, Leaving, Send | Wake | Report, ErrReleased},
	{"heard of the grant first", asking, func(l *life) Effect { return l.HeardGrant(7, 1, 3, l.now, 1) }, Held, Wake, nil},

	{"heartbeat", waiting, func(l *life) Effect { l.pass(heartbeat / 3); return l.Tick(l.now) }, Queued, Send, nil},
	{"still queued", waiting, func(l *life) Effect { return l.answer(queued) }, Queued, 0, nil},
	{"granted", waiting, func(l *life) Effect { return l.answer(granted(heartbeat)) }, Held, Wake, nil},
	{"heard of the grant", waiting, func(l *life) Effect { return l.HeardGrant(7, 1, 3, l.now, 1) }, Held, Wake, nil},
	{"heard of a grant of no slot", waiting, func(l *life) Effect { return l.HeardGrant(7, -1, 3, l.now, 1) }, Queued, Send, nil},
	{"heard of a grant beyond the limit", waiting, func(l *life) Effect { return l.HeardGrant(7, 3, 3, l.now, 1) }, Queued, Send, nil},
	{"heard of a grant of the future", waiting, func(l *life) Effect { return l.HeardGrant(2001, 1, 3, l.now, 1) }, Queued, Send, nil},
	{"heard of its end", waiting, func(l *life) Effect { return l.HeardEnd() }, Queued, Send, nil},
	{"expired", waiting, func(l *life) Effect { return l.answer(gone(protocol.Expired)) }, Asking, Send, nil},
	{"forgotten", waiting, func(l *life) Effect { return l.answer(gone(protocol.Unknown)) }, Asking, Send, nil},
	{"evicted", waiting, func(l *life) Effect { return l.answer(gone(protocol.Evicted)) }, Ended, Wake | Report, &LostError{Cause: Evicted}},
	{"too heavy", waiting, func(l *life) Effect { return l.answer(gone(protocol.TooHeavy)) }, Ended, Wake | Report, &Refusal{}},
	{"granted, and asked to stop", waiting, func(l *life) Effect {
		return l.answer(protocol.Result{Code: protocol.Evicting, Remaining: time.Second})
	}, Leaving, Send | Wake, &LostError{Cause: Evicted}},
	{"an outage of an hour", waiting, func(l *life) Effect {
		l.pass(time.Hour)
		return l.Failed(&protocol.Op{Verb: protocol.Heartbeat}, errUnknown, l.now)
	}, Queued, Send, nil},
	{"rejected", waiting, func(l *life) Effect {
		return l.Rejected(&protocol.Op{Verb: protocol.Heartbeat}, errRejected, l.now)
	}, Leaving, Send | Wake, errRejected},
	{"cancelled", waiting, func(l *life) Effect { return l.Cancel(ErrReleased, l.now) }, Leaving, Send | Wake | Report, ErrReleased},

	{"renewed", confirming, func(l *life) Effect { return l.answer(renewed) }, Held, Wake | Report, nil},
	{"renewed for too short a time", confirming, func(l *life) Effect {
		return l.answer(renewed, func(a *Answer) { a.Got = a.Sent.Add(ttl) })
	}, Confirming, Send, nil},
	{"gone", confirming, func(l *life) Effect { return l.answer(gone(protocol.Expired)) }, Asking, Send, nil},
	{"asked to stop", confirming, func(l *life) Effect {
		return l.answer(protocol.Result{Code: protocol.Evicting})
	}, Leaving, Send | Wake, &LostError{Cause: Evicted}},
	{"no answer", confirming, func(l *life) Effect { l.pass(Timeout); return l.Tick(l.now) }, Leaving, Send | Wake, protocol.ErrUnknown},

	{"renewal", held, func(l *life) Effect { l.pass(ttl / 3); return l.Tick(l.now) }, Held, Send, nil},
	{"renewed", held, func(l *life) Effect { l.Renew(l.now); return l.answer(renewed) }, Held, Wake | Report, nil},
	{"renewal failed", held, func(l *life) Effect { return l.Failed(&protocol.Op{Verb: protocol.Renew}, errUnknown, l.now) }, Held, Send, nil},
	{"renewal rejected", held, func(l *life) Effect { return l.Rejected(&protocol.Op{Verb: protocol.Renew}, errRejected, l.now) }, Held, Report, nil},
	{"trust is over", held, func(l *life) Effect { l.now = l.Trust; return l.Tick(l.now) }, Lost, Wake | Report, &LostError{Cause: Untrusted}},
	{"gone", held, func(l *life) Effect { l.Renew(l.now); return l.answer(gone(protocol.Expired)) }, Ended, Wake | Report, &LostError{Cause: Expired}},
	{"forgotten", held, func(l *life) Effect { l.Renew(l.now); return l.answer(gone(protocol.Unknown)) }, Ended, Wake | Report, &LostError{Cause: Vanished}},
	{"asked to stop", held, func(l *life) Effect {
		l.Renew(l.now)
		return l.answer(protocol.Result{Code: protocol.Evicting, Remaining: ttl})
	}, Lost, Wake | Report, &LostError{Cause: Evicted}},
	{"heard of its end", held, func(l *life) Effect { return l.HeardEnd() }, Held, Send, nil},
	{"a heartbeat from before the grant", waiting, func(l *life) Effect {
		op := l.sent()
		l.HeardGrant(7, 1, 3, l.now, 1)
		return l.reply(op, queued)
	}, Held, 0, nil},
	{"released", held, func(l *life) Effect { return l.Release(l.now) }, Leaving, Send | Wake, ErrReleased},
	{"released after its trust deadline", held, func(l *life) Effect { return l.Release(l.Trust) }, Leaving, Send | Wake, &LostError{Cause: Untrusted}},

	{"adopted", adopting, func(l *life) Effect { return l.answer(moved) }, Held, Wake, nil},
	{"adopted before", adopting, func(l *life) Effect {
		return l.answer(protocol.Result{Code: protocol.Gone, Reason: protocol.WasMoved, Owner: "1/host"})
	}, Ended, Wake | Report, &LostError{Cause: AdoptedAway}},
	{"adopted, and the renewal after it refused", adopting, func(l *life) Effect {
		l.Terms.MinReplicas = 1
		l.answer(moved)
		return l.Rejected(&protocol.Op{Verb: protocol.Renew}, errRejected, l.now)
	}, Leaving, Send | Wake, protocol.ErrUnknown},
	{"refused, and under way again at the end", adopting, func(l *life) Effect {
		l.Failed(&protocol.Op{Verb: protocol.Move}, errRefused, l.now)
		l.sent()
		l.pass(Timeout)
		return l.Tick(l.now)
	}, Leaving, Send | Wake, protocol.ErrUnknown},
	{"refused", adopting, func(l *life) Effect { return l.Rejected(&protocol.Op{Verb: protocol.Move}, errRejected, l.now) }, Ended, Wake | Report, errRejected},
	{"cancelled", adopting, func(l *life) Effect { return l.Cancel(ErrReleased, l.now) }, Leaving, Send | Wake | Report, ErrReleased},

	{"detached", detaching, func(l *life) Effect { return l.answer(moved) }, Ended, Wake | Report, ErrDetached},
	{"rejected", detaching, func(l *life) Effect { return l.Rejected(&protocol.Op{Verb: protocol.Move}, errRejected, l.now) }, Held, Wake | Report, nil},
	{"rejected after an unknown outcome", detaching, func(l *life) Effect {
		l.Failed(&protocol.Op{Verb: protocol.Move}, errUnknown, l.now)
		return l.Rejected(&protocol.Op{Verb: protocol.Move}, errRejected, l.now)
	}, Leaving, Send | Wake | Report, &LostError{Cause: Untrusted}},
	{"no answer", detaching, func(l *life) Effect { l.pass(Timeout); return l.Tick(l.now) }, Leaving, Send | Wake | Report, &LostError{Cause: Untrusted}},
	{"gone", detaching, func(l *life) Effect { return l.answer(gone(protocol.Evicted)) }, Ended, Wake | Report, &LostError{Cause: Evicted}},

	{"released", lost, func(l *life) Effect { return l.Release(l.now) }, Leaving, Send | Wake, &LostError{Cause: Untrusted}},
	{"nobody comes for it", lost, func(l *life) Effect { l.now = l.Next(); return l.Tick(l.now) }, Ended, Wake | Report, &LostError{Cause: Untrusted}},

	{"answered", releasing, func(l *life) Effect { return l.answer(protocol.Result{Code: protocol.Released}) }, Ended, Wake | Report, ErrReleased},
	{"no answer yet", releasing, func(l *life) Effect { l.pass(Timeout); return l.Tick(l.now) }, Leaving, Report, ErrReleased},
	{"run out by itself", releasing, func(l *life) Effect { l.pass(Timeout); l.Tick(l.now); l.now = l.Next(); return l.Tick(l.now) }, Ended, Wake | Report, ErrReleased},
	{"cancelled again", releasing, func(l *life) Effect { return l.Cancel(ErrReleased, l.now) }, Leaving, 0, ErrReleased},
}

// TestTransitions walks through the table.
func TestTransitions(t *testing.T) {
	t.Parallel()
	for _, s := range slices.Concat(steps, doSteps) {
		l := newLife()
		s.from(l)
		from := l.State
		effect := s.event(l)
		if l.State != s.state || effect != s.effect {
			t.Errorf("from %d, %s: state %d, effects %b, want %d, %b", from, s.name, l.State, effect, s.state, s.effect)
		}
		if !sameKind(l.Err, s.err) {
			t.Errorf("from %d, %s: error %v, want %v", from, s.name, l.Err, s.err)
		}
	}
}

func sameKind(err, want error) bool {
	if got, ok := errors.AsType[*LostError](err); ok {
		wanted, ok := errors.AsType[*LostError](want)
		return ok && got.Cause == wanted.Cause
	}
	if _, ok := errors.AsType[*Refusal](err); ok {
		_, ok := errors.AsType[*Refusal](want)
		return ok
	}
	return want == nil && err == nil || want != nil && errors.Is(err, want)
}

// tellings are the ways in which a claim learns of its lease.
var tellings = []struct {
	name string
	from func(l *life) (sent clock.Instant)
	ttl  time.Duration
}{
	{"a grant by reply", func(l *life) clock.Instant {
		sent := l.now
		l.Ask(l.now)
		l.answer(granted(ttl), func(a *Answer) { a.Got = a.Sent.Add(time.Second) })
		return sent
	}, ttl},
	{"a repeated grant", func(l *life) clock.Instant {
		l.Ask(l.now)
		op := l.sent()
		l.Failed(&op, errUnknown, l.now)
		l.pass(time.Second)
		sent := l.now
		l.answer(granted(ttl - time.Second))
		return sent
	}, ttl - time.Second},
	{"a grant by message", func(l *life) clock.Instant {
		sent := l.now
		waiting(l)
		l.pass(time.Second)
		l.HeardGrant(7, 1, 3, l.now, 1)
		return sent
	}, heartbeat},
	{"a grant by message, after a heartbeat", func(l *life) clock.Instant {
		waiting(l)
		l.pass(time.Second)
		sent := l.now
		l.answer(queued)
		l.pass(time.Second)
		l.HeardGrant(7, 1, 3, l.now, 1)
		return sent
	}, heartbeat},
	{"a grant by message, after a heartbeat without answer", func(l *life) clock.Instant {
		sent := l.now
		waiting(l)
		l.pass(time.Second)
		l.sent()
		l.HeardGrant(7, 1, 3, l.now, 1)
		return sent
	}, heartbeat},
	{"a renewal", func(l *life) clock.Instant {
		held(l)
		l.pass(time.Second)
		sent := l.now
		l.Renew(l.now)
		l.answer(renewed, func(a *Answer) { a.Got = a.Sent.Add(time.Second) })
		return sent
	}, ttl},
	{"an adoption", func(l *life) clock.Instant {
		sent := l.now
		adopting(l)
		l.answer(moved, func(a *Answer) { a.Got = a.Sent.Add(time.Second) })
		return sent
	}, ttl},
}

// TestTrustIsCountedFromWhenTheRequestWasSent, whatever tells of the lease, and less
// a margin.
func TestTrustIsCountedFromWhenTheRequestWasSent(t *testing.T) {
	t.Parallel()
	const margin = time.Millisecond
	for _, test := range tellings {
		l := newLife()
		sent := test.from(l)
		if want := sent.Add(test.ttl - margin - test.ttl/100); l.State != Held || l.Trust != want {
			t.Errorf("%s: state %d, trusted for %v after the request, want %v", test.name, l.State, l.Trust.Sub(sent), want.Sub(sent))
		}
	}
}

// TestMaxHoldCapsAGrantByMessage: the server ends the lease then, and the message
// does not say so.
func TestMaxHoldCapsAGrantByMessage(t *testing.T) {
	t.Parallel()
	l := newLife(func(t *protocol.Terms) { t.MaxHold = time.Second })
	sent := l.now
	waiting(l)
	l.HeardGrant(7, 1, 3, l.now, 1)
	if want := sent.Add(time.Second - 11*time.Millisecond); l.Trust != want {
		t.Errorf("trusted for %v, want %v", l.Trust.Sub(sent), want.Sub(sent))
	}
}

// TestCappedLeaseIsNotRenewed: it ends with MaxHold as the cause.
func TestCappedLeaseIsNotRenewed(t *testing.T) {
	t.Parallel()
	l := newLife(func(t *protocol.Terms) { t.MaxHold = time.Minute })
	held(l)
	l.Renew(l.now)
	l.answer(renewal(time.Second))
	if l.Next() != l.Trust {
		t.Errorf("something is due %v before the trust deadline", l.Trust.Sub(l.Next()))
	}
	l.now = l.Trust
	l.Tick(l.now)
	if why, ok := errors.AsType[*LostError](l.Err); !ok || why.Cause != MaxHold {
		t.Errorf("lost because of %v", l.Err)
	}
}

// TestUnreplicated: a grant that too few replicas have is given back, a lease is
// trusted for as long as before and tries again.
func TestUnreplicated(t *testing.T) {
	t.Parallel()
	two := func(t *protocol.Terms) { t.MinReplicas = 2 }
	replicas := func(n int) func(*Answer) { return func(a *Answer) { a.Replicas = n } }

	l := newLife(two)
	l.Ask(l.now)
	if l.answer(granted(ttl)); l.State != Confirming {
		t.Fatalf("a grant that nobody has confirmed leads to state %d", l.State)
	}
	l.answer(renewed, replicas(1))
	if _, ok := errors.AsType[*Unreplicated](l.Err); l.State != Leaving || !ok {
		t.Errorf("state %d, %v", l.State, l.Err)
	}

	l = newLife(two)
	l.Ask(l.now)
	l.answer(granted(ttl))
	l.answer(renewed, replicas(2))
	trust := l.Trust
	l.pass(ttl / 3)
	l.Tick(l.now)
	l.answer(renewed, replicas(1))
	if l.State != Held || l.Trust != trust || l.Next() > l.now.Add(time.Second) {
		t.Errorf("state %d, trust moved by %v, next in %v", l.State, l.Trust.Sub(trust), l.Next().Sub(l.now))
	}
}

// TestManualLeaseIsRenewedFirst where its holder would not have the whole TTL, and
// by nobody else afterwards.
func TestManualLeaseIsRenewedFirst(t *testing.T) {
	t.Parallel()
	l := newLife()
	l.Manual = true
	l.Ask(l.now)
	l.answer(queued)
	l.HeardGrant(7, 1, 3, l.now, 1)
	if l.State != Confirming {
		t.Fatalf("state %d", l.State)
	}
	l.answer(renewed)
	if l.State != Held || l.Next() != l.Trust {
		t.Errorf("state %d, something is due %v before the trust deadline", l.State, l.Trust.Sub(l.Next()))
	}
	if l.HeardEnd(); l.sent().Verb != protocol.Heartbeat {
		t.Error("a message has the lease renewed")
	}
}

// TestRenewalThatWasAskedForIsItsOwn: the answer to a renewal that was sent before
// says nothing to who asked for one since.
func TestRenewalThatWasAskedForIsItsOwn(t *testing.T) {
	t.Parallel()
	l := newLife()
	held(l)
	l.pass(ttl / 3)
	l.Tick(l.now)
	op := l.sent()
	sent := l.now
	l.pass(time.Millisecond)
	l.Renew(l.now)
	if effect := l.reply(op, renewed, func(a *Answer) { a.Sent = sent }); effect != Wake|Send {
		t.Fatalf("effects %b", effect)
	}
	if effect := l.answer(renewed); effect != Wake|Report || l.Outcome != nil {
		t.Errorf("effects %b, outcome %v", effect, l.Outcome)
	}
}

// TestGrantThatOvertakesThePlaceHasTheRatesAskedFor, so that its cost can be settled.
func TestGrantThatOvertakesThePlaceHasTheRatesAskedFor(t *testing.T) {
	t.Parallel()
	l := newLife(func(t *protocol.Terms) { t.Rates = "tokens:9/1000" })
	asking(l)
	l.HeardGrant(7, 1, 3, l.now, 1)
	if l.State != Held || l.Lease.Rates != l.Terms.Rates {
		t.Errorf("state %v, rates %q", l.State, l.Lease.Rates)
	}
}
