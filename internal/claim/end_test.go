package claim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

// TestBothIDsOfAFailedDetachAreReleased: the lease is under one of the two.
func TestBothIDsOfAFailedDetachAreReleased(t *testing.T) {
	t.Parallel()
	l := newLife()
	detaching(l)
	l.Failed(&protocol.Op{Verb: protocol.Move}, errUnknown, l.now)
	l.pass(Timeout)
	if effect := l.Tick(l.now); effect&Report == 0 || l.Outcome != errUnknown {
		t.Fatalf("effects %b, outcome %v", effect, l.Outcome)
	}
	first := l.sent()
	if l.reply(first, protocol.Result{Code: protocol.Released}) != Send {
		t.Fatal("the second id is not released")
	}
	if second := l.sent(); first.ID == second.ID || !first.Flag || !second.Flag {
		t.Fatalf("released %+v and %+v", first, second)
	}
	l.answer(gone(protocol.Unknown))
	if l.State != Ended {
		t.Fatalf("state %d", l.State)
	}
}

// TestReleaseTellsTheTruth: whether the lease was held until then, as far as can be
// known.
func TestReleaseTellsTheTruth(t *testing.T) {
	t.Parallel()
	live, past := func(*life) {}, func(l *life) { l.now = l.Trust }
	fails := func(l *life, err error) {
		op := l.sent()
		l.Failed(&op, err, l.now)
	}
	once, unknown := func(*life) {}, func(l *life) { fails(l, errUnknown) }
	refused := func(l *life) {
		fails(l, errRefused)
		l.now = l.Trust
	}
	released, vanished, expired := protocol.Result{Code: protocol.Released}, gone(protocol.Unknown), gone(protocol.Expired)
	for _, test := range []struct {
		name   string
		when   func(*life)
		then   func(*life)
		answer protocol.Result
		lost   bool
	}{
		{"in time", live, once, released, false},
		{"in time, but gone", live, once, vanished, true},
		{"in time, gone after an unknown outcome", live, unknown, vanished, false},
		{"in time, at the second try", live, unknown, released, false},
		{"in time, gone after a refusal for as long as it lasts", live, refused, vanished, false},
		{"in time, expired after a refusal for as long as it lasts", live, refused, expired, false},
		{"in time, evicted before a refusal for as long as it lasts", live, refused, gone(protocol.Evicted), true},
		{"after the trust deadline, and gone", past, once, vanished, true},
		{"after the trust deadline, gone after an unknown outcome", past, unknown, vanished, true},
		{"after the trust deadline, but still there", past, once, released, false},
		{"after the trust deadline, still there at the second try", past, unknown, released, false},
	} {
		l := newLife()
		held(l)
		test.when(l)
		l.Release(l.now)
		test.then(l)
		effect := l.answer(test.answer)
		if _, isLost := errors.AsType[*LostError](l.Outcome); isLost != test.lost || l.Outcome != nil && !test.lost || effect&Report == 0 {
			t.Errorf("%s: %v, want lost: %v", test.name, l.Outcome, test.lost)
		}
	}
}

// TestReleaseTellsThatASettlementCameTooLate: the lease ended by itself on its way, so that the estimate
// still counts, or, after a call of unknown outcome, may.
func TestReleaseTellsThatASettlementCameTooLate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first  error
		past   bool // the answer comes after the trust deadline
		answer protocol.Result
		want   error
	}{
		"released":                      {errRefused, true, protocol.Result{Code: protocol.Released}, nil},
		"gone after a refusal":          {errRefused, true, gone(protocol.Unknown), errUnsettled},
		"expired after a refusal":       {errRefused, true, gone(protocol.Expired), errUnsettled},
		"gone after no answer":          {errUnknown, true, gone(protocol.Unknown), errUnsettled},
		"gone after no answer, in time": {errUnknown, false, gone(protocol.Unknown), nil},
	} {
		l := newLife()
		held(l)
		_, _ = l.Settle("tokens:5")
		l.Release(l.now)
		op := l.sent()
		if op.Costs != "tokens:5" {
			t.Errorf("%s: the release tells %q", name, op.Costs)
		}
		l.Failed(&op, test.first, l.now)
		if test.past {
			l.now = l.Trust
		}
		l.answer(test.answer)
		if !errors.Is(l.Outcome, test.want) || test.want != nil && !errors.Is(l.Outcome, protocol.ErrUnknown) {
			t.Errorf("%s: %v, want %v", name, l.Outcome, test.want)
		}
	}
}

// TestReleaseOfUnknownOutcomeIsNoRefusal: an earlier copy may have freed the permit.
func TestReleaseOfUnknownOutcomeIsNoRefusal(t *testing.T) {
	t.Parallel()
	rejected := &protocol.Failure{Kind: protocol.ErrRejected, Err: errors.New("NOPERM")}
	for name, test := range map[string]struct {
		first, last error
		want        error
	}{
		"refused":               {errRefused, errRefused, protocol.ErrRefused},
		"rejected":              {errRefused, rejected, protocol.ErrRejected},
		"unknown, and refused":  {errUnknown, errRefused, protocol.ErrUnknown},
		"unknown, and rejected": {errUnknown, rejected, protocol.ErrUnknown},
	} {
		l := newLife()
		held(l)
		l.Release(l.now)
		op := l.sent()
		l.Failed(&op, test.first, l.now)
		op = l.sent()
		if errors.Is(test.last, protocol.ErrRejected) {
			l.Rejected(&op, test.last, l.now)
		} else {
			l.Failed(&op, test.last, l.now)
			l.pass(Timeout)
			l.Tick(l.now)
		}
		if !errors.Is(l.Outcome, test.want) {
			t.Errorf("%s: %v, want %v", name, l.Outcome, test.want)
		}
	}
}

// TestCauseOfALossIsTheLastFailure, and not one that a renewal has mended.
func TestCauseOfALossIsTheLastFailure(t *testing.T) {
	t.Parallel()
	l := newLife()
	held(l)
	renew := protocol.Op{Verb: protocol.Renew}
	l.Failed(&renew, errRefused, l.now)
	l.Renew(l.now)
	l.answer(renewed)
	l.now = l.Trust
	l.Tick(l.now)
	if why, _ := errors.AsType[*LostError](l.Err); why == nil || why.Err != nil {
		t.Errorf("lost because of %v", l.Err)
	}

	l = newLife()
	held(l)
	l.pass(ttl / 3)
	l.Tick(l.now) // the renewal is due, and will have its connection
	l.answer(renewed)
	l.Release(l.Trust)
	if why, _ := errors.AsType[*LostError](l.Err); why == nil || why.Err != nil {
		t.Errorf("given back when it was over: %v", l.Err)
	}

	l = newLife()
	held(l)
	l.Failed(&renew, errRefused, l.now)
	l.Failed(&renew, errUnknown, l.now)
	l.now = l.Trust
	l.Tick(l.now)
	if !errors.Is(l.Err, errUnknown) || errors.Is(l.Err, errRefused) {
		t.Errorf("lost because of %v", l.Err)
	}
}

// TestCopyOnItsWayIsRefusedToo: until then it may find room, and needs a tombstone.
func TestCopyOnItsWayIsRefusedToo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		after time.Duration
		want  State
	}{"just before it is late": {protocol.Late - trip - time.Millisecond, Leaving}, "as it is late": {protocol.Late - trip, Ended}} {
		l := newLife()
		asking(l)
		l.Failed(&protocol.Op{Verb: protocol.Acquire}, errUnknown, l.now)
		l.pass(test.after)
		if l.answer(protocol.Result{Code: protocol.Busy}); l.State != test.want {
			t.Errorf("%s: state %d, want %d", name, l.State, test.want)
		}
	}
}

// TestCallersAreToldWhy: of renewals, releases and hand-overs, with the last cause.
func TestCallersAreToldWhy(t *testing.T) {
	t.Parallel()
	fail := func(l *life, verb protocol.Verb) { l.Failed(&protocol.Op{Verb: verb}, errRefused, l.now) }
	timeout := func(l *life) Effect { l.pass(Timeout); return l.Tick(l.now) }
	for name, test := range map[string]struct {
		event   func(*life) Effect
		outcome error // nil: it was done
		cause   Cause // of a loss, where outcome is lost
	}{
		"renewed":                   {func(l *life) Effect { held(l); l.Renew(l.now); return l.answer(renewed) }, nil, 0},
		"renewed after a refusal":   {func(l *life) Effect { held(l); l.Renew(l.now); fail(l, protocol.Renew); return l.answer(renewed) }, nil, 0},
		"renewal refused":           {func(l *life) Effect { held(l); l.Renew(l.now); fail(l, protocol.Renew); return timeout(l) }, errRefused, 0},
		"renewal without an answer": {func(l *life) Effect { held(l); l.Renew(l.now); return timeout(l) }, protocol.ErrUnknown, 0},
		"renewal rejected": {func(l *life) Effect {
			held(l)
			l.Renew(l.now)
			return l.Rejected(&protocol.Op{Verb: protocol.Renew}, errRejected, l.now)
		}, errRejected, 0},
		"not detached": {func(l *life) Effect {
			detaching(l)
			return l.Rejected(&protocol.Op{Verb: protocol.Move}, errRejected, l.now)
		}, errRejected, 0},
		"detached":                             {func(l *life) Effect { detaching(l); return l.answer(moved) }, nil, 0},
		"detached, perhaps":                    {func(l *life) Effect { detaching(l); fail(l, protocol.Move); return timeout(l) }, errRefused, 0},
		"released":                             {func(l *life) Effect { releasing(l); return l.answer(protocol.Result{Code: protocol.Released}) }, nil, 0},
		"release without an answer":            {func(l *life) Effect { releasing(l); return timeout(l) }, protocol.ErrUnknown, 0},
		"release without an answer, told late": {func(l *life) Effect { releasing(l); l.pass(2*Timeout + ttl); return l.Tick(l.now) }, protocol.ErrUnknown, 0},
		"release rejected": {func(l *life) Effect {
			releasing(l)
			return l.Rejected(&protocol.Op{Verb: protocol.Release}, errRejected, l.now)
		}, errRejected, 0},
		"dropped": {func(l *life) Effect { held(l); return l.Drop(errRefused) }, errRefused, 0},
		"lost, and released": {func(l *life) Effect {
			lost(l)
			l.Release(l.now)
			return l.answer(protocol.Result{Code: protocol.Released})
		}, errLost, Untrusted},
		"lost, release unanswered":    {func(l *life) Effect { lost(l); l.Release(l.now); return timeout(l) }, errLost, Untrusted},
		"late, release unanswered":    {func(l *life) Effect { held(l); l.now = l.Trust; l.Release(l.now); return timeout(l) }, errLost, Untrusted},
		"its ceiling":                 {func(l *life) Effect { held(l); l.Renew(l.now); short(l); l.now = l.Trust; return l.Tick(l.now) }, errLost, MaxHold},
		"given back by its id":        {func(l *life) Effect { held(l); l.Renew(l.now); return l.answer(gone(protocol.WasReleased)) }, errLost, GivenBack},
		"forgotten, past its trust":   {func(l *life) Effect { held(l); l.Renew(l.now); return l.answer(gone(protocol.Unknown), late) }, errLost, Expired},
		"forgotten, in time":          {func(l *life) Effect { held(l); l.Renew(l.now); return l.answer(gone(protocol.Unknown)) }, errLost, Vanished},
		"asked to stop, as one looks": {func(l *life) Effect { held(l); return l.answer(protocol.Result{Code: protocol.Evicting}) }, errLost, Evicted},
		"gone, as one looks":          {func(l *life) Effect { held(l); return l.answer(gone(protocol.Evicted)) }, errLost, Evicted},
	} {
		l := newLife()
		effect := test.event(l)
		why, isLost := errors.AsType[*LostError](l.Outcome)
		switch {
		case effect&Report == 0:
			t.Errorf("%s: nobody is told", name)
		case test.outcome == errLost && (!isLost || why.Cause != test.cause || why.Name != "name" || why.ID != l.ID):
			t.Errorf("%s: told %+v, want cause %d", name, l.Outcome, test.cause)
		case test.outcome != errLost && !errors.Is(l.Outcome, test.outcome):
			t.Errorf("%s: told %v, want %v", name, l.Outcome, test.outcome)
		}
	}
}

var errLost = errors.New("a *LostError")

// TestLossNamesItsCause: why renewals failed is not forgotten.
func TestLossNamesItsCause(t *testing.T) {
	t.Parallel()
	l := newLife()
	held(l)
	l.Failed(&protocol.Op{Verb: protocol.Renew}, errRefused, l.now)
	l.now = l.Trust
	l.Tick(l.now)
	if !errors.Is(l.Err, errRefused) {
		t.Errorf("lost: %v", l.Err)
	}
	l = newLife()
	adopting(l)
	l.answer(protocol.Result{Code: protocol.Gone, Reason: protocol.WasMoved, Owner: "1/host"})
	if why, _ := errors.AsType[*LostError](l.Err); why.By != "1/host" || why.ID != "chan.handle" {
		t.Errorf("adopted away: %+v", why)
	}
}

// TestNothingWasSent: what the server never heard of ends at once.
func TestNothingWasSent(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]func(*life){
		"at first":            func(l *life) { l.Ask(l.now) },
		"since it asks again": func(l *life) { asking(l); l.answer(gone(protocol.Expired)) },
	} {
		l := newLife()
		from(l)
		if effect := l.Cancel(ErrReleased, l.now); effect != Wake|Report || l.State != Ended {
			t.Errorf("%s: effects %b, state %d", name, effect, l.State)
		}
	}
}

// TestDetachRejectedKeepsTheLease under its own id.
func TestDetachRejectedKeepsTheLease(t *testing.T) {
	t.Parallel()
	l := newLife()
	detaching(l)
	l.Rejected(&protocol.Op{Verb: protocol.Move}, errRejected, l.now)
	l.Release(l.now)
	if op := l.sent(); op.ID != l.ID {
		t.Errorf("%s is released", op.ID)
	}
	if l.answer(protocol.Result{Code: protocol.Released}); l.State != Ended {
		t.Errorf("state %d after the release", l.State)
	}
	l = newLife()
	asking(l)
	l.Failed(&protocol.Op{Verb: protocol.Acquire}, errUnknown, l.now)
	l.answer(granted(ttl))
	l.Detach("chan.handle", l.now)
	l.sent()
	l.Rejected(&protocol.Op{Verb: protocol.Move}, errRejected, l.now)
	if l.State != Held {
		t.Errorf("state %d, for a copy of its acquire may be on its way", l.State)
	}
	l = newLife()
	detaching(l)
	if effect := l.Rejected(&protocol.Op{Verb: protocol.Renew}, errRejected, l.now); effect != 0 || l.State != Detaching {
		t.Errorf("a renewal of before: effects %b, state %d", effect, l.State)
	}
	l = newLife()
	held(l)
	if effect := l.Rejected(&protocol.Op{Verb: protocol.Heartbeat}, errRejected, l.now); effect != 0 {
		t.Errorf("a look that was rejected: effects %b", effect)
	}
}

// TestMoveMayHaveHappenedBeforeItWasRefused: where an earlier copy had got no answer, a refusal
// does not say that nothing has happened.
func TestMoveMayHaveHappenedBeforeItWasRefused(t *testing.T) {
	t.Parallel()
	test := func(name string, from func(*life), detached bool, words string, last func(*life)) {
		l := newLife()
		from(l)
		l.Failed(&protocol.Op{Verb: protocol.Move}, errUnknown, l.now)
		last(l)
		told := l.Err
		if detached {
			told = l.Outcome
		}
		if l.State != Leaving || !errors.Is(told, protocol.ErrUnknown) || errors.Is(told, protocol.ErrRejected) ||
			errors.Is(told, protocol.ErrRefused) || !strings.Contains(told.Error(), words) {
			t.Errorf("%s: state %d, %v", name, l.State, told)
		}
	}
	for name, from := range map[string]func(*life){"adopt": adopting, "detach": detaching} {
		test(name+", rejected", from, name == "detach", "noperm", func(l *life) {
			l.Rejected(&protocol.Op{Verb: protocol.Move}, errRejected, l.now)
		})
		test(name+", refused until the end", from, name == "detach", "loading", func(l *life) {
			l.Failed(&protocol.Op{Verb: protocol.Move}, errRefused, l.now)
			l.pass(Timeout)
			l.Tick(l.now)
		})
	}
}

// TestAdoptionOfUnknownOutcomeIsGivenBackUntilRedisAnswers: the lease may last for any time.
func TestAdoptionOfUnknownOutcomeIsGivenBackUntilRedisAnswers(t *testing.T) {
	t.Parallel()
	l := newLife()
	adopting(l)
	l.Terms.TTL, l.Lease.TTL = 0, 0
	l.Failed(&protocol.Op{Verb: protocol.Move}, errUnknown, l.now)
	l.pass(Timeout)
	l.Tick(l.now)
	l.pass(24 * time.Hour)
	l.Tick(l.now)
	if op, ok := l.Op(l.now); l.State != Leaving || !ok || op.Verb != protocol.Release {
		t.Errorf("state %d, %+v", l.State, op)
	}
}
