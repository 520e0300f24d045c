package claim

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// What the table of transitions leaves open: deadlines, and what callers are told.
const (
	trusted = ttl - time.Millisecond - ttl/100 // of a whole lease, from when it was sent
	trip    = 2 * time.Millisecond             // of an answer
	never   = -1
)

// failedAt is from, and then a request that came to nothing.
func failedAt(from func(*life), verb protocol.Verb, err error) func(*life) {
	return func(l *life) { from(l); l.Failed(&protocol.Op{Verb: verb}, err, l.now) }
}

// deadlines are when each state has something to do, counted from now.
var deadlines = map[string]struct {
	from func(*life)
	want time.Duration
}{
	"asking":                      {asking, Timeout},
	"asking, without waiting":     {func(l *life) { l.Terms.Wait = false; asking(l) }, TryTimeout},
	"asking again":                {failedAt(asking, protocol.Acquire, errRefused), Timeout},
	"queued":                      {waiting, heartbeat/3 - trip},
	"queued, a heartbeat is sent": {func(l *life) { waiting(l); l.pass(heartbeat / 3); l.Tick(l.now) }, never},
	"queued, news may be lost":    {func(l *life) { waiting(l); l.HeardEnd() }, never},
	"confirming":                  {confirming, Timeout - trip},
	"adopting":                    {adopting, Timeout},
	"detaching":                   {detaching, Timeout},
	"detaching, shortly before":   {func(l *life) { held(l); l.now = l.Trust.Add(-time.Second); l.Detach("h", l.now) }, time.Second},
	"held":                        {held, (trusted - 2*trip) / 3},
	"held by hand":                {func(l *life) { l.Manual = true; held(l) }, trusted - trip},
	"held, a renewal is sent":     {func(l *life) { held(l); l.pass(ttl / 3); l.Tick(l.now) }, trusted - trip - ttl/3},
	"held, renewal asked for":     {func(l *life) { held(l); l.Renew(l.now) }, Timeout},
	"held, asked for twice":       {func(l *life) { held(l); l.Renew(l.now); l.pass(time.Second); l.Renew(l.now) }, Timeout - time.Second},
	"held, renewal rejected":      {func(l *life) { held(l); l.Rejected(&protocol.Op{Verb: protocol.Renew}, errRejected, l.now) }, time.Second},
	"held, rejected, by hand": {func(l *life) {
		l.Manual = true
		held(l)
		l.Rejected(&protocol.Op{Verb: protocol.Renew}, errRejected, l.now)
	}, trusted - trip},
	"held, renewed to its ceiling": {func(l *life) {
		held(l)
		l.Renew(l.now)
		l.answer(renewal(10 * time.Second))
	}, 10*time.Second - time.Millisecond - 100*time.Millisecond - trip},
	"adopted, with less than its TTL": {func(l *life) {
		adopting(l)
		m := moved
		m.Remaining = 10 * time.Second
		l.answer(m)
	}, (10*time.Second - time.Millisecond - 100*time.Millisecond - 2*trip) / 3},
	"adopted":   {func(l *life) { adopting(l); l.answer(moved) }, (trusted - 2*trip) / 3},
	"lost":      {lost, ttl + Timeout},
	"releasing": {releasing, Timeout},
	"releasing, told": {
		func(l *life) { releasing(l); l.pass(Timeout); l.Tick(l.now) },
		ttl,
	}, // a whole lease from the release, and a Timeout
	"leaving after a grant that was short": {func(l *life) { confirming(l); l.Cancel(ErrReleased, l.now) }, ttl + Timeout},
	"leaving the queue":                    {func(l *life) { waiting(l); l.Cancel(ErrReleased, l.now) }, ttl + Timeout},
	"ended":                                {func(l *life) { l.Cancel(ErrReleased, l.now) }, never},
}

func TestNextDeadline(t *testing.T) {
	t.Parallel()
	for name, test := range deadlines {
		l := newLife()
		test.from(l)
		want := l.now.Add(test.want)
		if test.want == never {
			want = clock.Never
		}
		if got := l.Next(); got != want {
			t.Errorf("%s: after %v, want %v", name, got.Sub(l.now), test.want)
		}
	}
}

// TestTickBeforeItIsTime does nothing; Soon is a twelfth of a deadline before it.
func TestTickBeforeItIsTime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from func(*life)
		soon func(l *life) clock.Instant // from when on it is soon; nil: never
	}{
		"asking":    {asking, nil},
		"queued":    {waiting, func(l *life) clock.Instant { return l.Next().Add(-heartbeat / 12) }},
		"held":      {held, func(l *life) clock.Instant { return l.now.Add((l.Next().Sub(l.now)*12 - l.Trust.Sub(l.now)) / 11) }},
		"lost":      {lost, nil},
		"releasing": {releasing, nil},
	} {
		l := newLife()
		test.from(l)
		next := l.Next()
		if test.soon != nil {
			next = test.soon(l)
			if at := next.Add(time.Microsecond); !l.Soon(at) {
				t.Errorf("%s: not soon, %v before it is due", name, l.Next().Sub(at))
			}
		}
		if at := next.Add(-time.Microsecond); l.Soon(at) || l.Tick(at) != 0 {
			t.Errorf("%s: something happens %v before it is due", name, l.Next().Sub(at))
		}
	}
}

// TestCallTimeout: there is time for a second call.
func TestCallTimeout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*protocol.Terms)
		from   func(*life)
		want   time.Duration
	}{
		"of a lease":                 {func(*protocol.Terms) {}, asking, Timeout / 2},
		"of one who does not wait":   {func(t *protocol.Terms) { t.Wait = false }, asking, TryTimeout / 2},
		"of a short one":             {func(t *protocol.Terms) { t.Wait, t.TTL = false, time.Second }, asking, time.Second / 3},
		"of a handle":                {func(t *protocol.Terms) { t.TTL = 0 }, adopting, Timeout / 2},
		"of one who waits in a line": {func(t *protocol.Terms) { t.TTL = 5 * time.Minute }, waiting, heartbeat / 3},
		"of one asked for":           {func(*protocol.Terms) {}, func(l *life) { held(l); l.Renew(l.now) }, Timeout / 2},
		"of a renewal":               {func(*protocol.Terms) {}, func(l *life) { held(l); l.pass(ttl / 3); l.Tick(l.now) }, (trusted - trip - ttl/3) / 2},
	} {
		l := newLife(test.change)
		test.from(l)
		if got := l.Patience(l.now); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestGrantIsToldAsItCame by every way that there is.
func TestGrantIsToldAsItCame(t *testing.T) {
	t.Parallel()
	own := Lease{Token: 7, Slot: 1, Limit: 3, Weight: 1, TTL: ttl}
	for name, test := range map[string]struct {
		from func(*life)
		want Lease
	}{
		"by reply":   {held, own},
		"by message": {func(l *life) { waiting(l); l.HeardGrant(7, 1, 3, l.now, 1) }, own},
		"by another": {func(l *life) { adopting(l); l.answer(moved) }, Lease{Token: 7, Slot: 1, Limit: 3, Weight: 2, TTL: ttl, Label: "job"}},
		"by reply, pinned": {func(l *life) {
			asking(l)
			l.answer(granted(ttl), func(a *Answer) { a.Pin = 2 })
		}, Lease{Token: 7, Slot: 1, Limit: 2, Weight: 1, TTL: ttl}},
	} {
		l := newLife()
		test.from(l)
		if l.State != Held || l.Lease != test.want {
			t.Errorf("%s: state %d, %+v, want %+v", name, l.State, l.Lease, test.want)
		}
	}
}

// TestMessageThatCannotBeTrue is a reason to ask, and no more.
func TestMessageThatCannotBeTrue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		token       int64
		slot, limit int
		weight      int
		held        bool
	}{
		"the first slot":      {7, 0, 3, 1, true},
		"the last slot":       {7, 2, 3, 1, true},
		"beyond the limit":    {7, 3, 3, 1, false},
		"no slot":             {7, -1, 3, 1, false},
		"all of the limit":    {7, 0, 3, 3, true},
		"more than the limit": {7, 0, 3, 4, false},
		"no token":            {0, 1, 3, 1, false},
		"the first token":     {1, 1, 3, 1, true},
		"as late as can be":   {1999, 1, 3, 1, true},
		"later than can be":   {2000, 1, 3, 1, false},
	} {
		l := newLife(func(t *protocol.Terms) { t.Weight = test.weight })
		waiting(l)
		l.HeardGrant(test.token, test.slot, test.limit, l.now, 1)
		if held := l.State == Held; held != test.held {
			t.Errorf("%s: believed %v", name, held)
		}
	}
	l := newLife()
	l.Ask(l.now) // nothing was sent yet: nobody can know of it
	if l.HeardGrant(7, 1, 3, l.now, 1) != 0 || l.State != Asking {
		t.Error("believed before anything was sent")
	}
	held(l)
	if l.HeardGrant(8, 2, 3, l.now, 1) != 0 || l.Lease.Token != 7 {
		t.Error("a second grant changed a lease")
	}
}

// TestMessageAfterALostAnswerIsOnlyAHint: what granted the first copy may have lost its data,
// and have granted the second anew. Only an answer tells which grant there is.
func TestMessageAfterALostAnswerIsOnlyAHint(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]struct {
		answer protocol.Result
		state  State
		effect Effect
	}{
		"granted anew": {protocol.Result{Code: protocol.Granted, Token: 9, Slot: 2, Remaining: ttl}, Held, Wake},
		"queued anew":  {queued, Queued, Send},
	} {
		l := newLife()
		asking(l)
		l.Failed(&protocol.Op{Verb: protocol.Acquire}, errUnknown, l.now)
		op := l.sent()
		if effect := l.HeardGrant(7, 1, 3, l.now, 1); effect != 0 || l.State != Asking {
			t.Errorf("%s: a message led to state %v, effect %v", name, l.State, effect)
		}
		if effect := l.reply(op, again.answer); effect != again.effect || l.State != again.state {
			t.Errorf("%s: state %v, effect %v", name, l.State, effect)
		}
		if l.State == Held && (l.Lease.Token != 9 || l.Lease.Slot != 2) {
			t.Errorf("%s: the lease is %+v", name, l.Lease)
		}
		if l.State != Queued {
			continue
		}
		if effect := l.HeardGrant(7, 1, 3, l.now, 1); effect != Send || l.State != Queued || l.sent().Verb != protocol.Heartbeat {
			t.Errorf("%s: in the queue, a message led to state %v, effect %v", name, l.State, effect)
		}
		if effect := l.answer(queued); effect != 0 {
			t.Errorf("%s: it asks for ever", name)
		}
	}
}

// TestMessageGrantsNoMoreThanMaxHold, and no more than the heartbeat's TTL.
func TestMessageGrantsNoMoreThanMaxHold(t *testing.T) {
	t.Parallel()
	for hold, want := range map[time.Duration]time.Duration{0: heartbeat, 4 * time.Second: 4 * time.Second, time.Hour: heartbeat} {
		l := newLife(func(t *protocol.Terms) { t.MaxHold = hold })
		sent := l.now
		waiting(l)
		l.HeardGrant(7, 1, 3, l.now, 1)
		if got := l.Trust.Sub(sent); got != want-time.Millisecond-want/100 {
			t.Errorf("MaxHold %v: trusted for %v", hold, got)
		}
	}
}

// TestManualHolderGetsAWholeLease: nobody would renew the rest of one.
func TestManualHolderGetsAWholeLease(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		left, maxHold time.Duration
		want          State
	}{
		"a whole one":              {ttl, 0, Held},
		"what a heartbeat left":    {ttl - time.Millisecond, 0, Confirming},
		"a whole MaxHold":          {20 * time.Second, 20 * time.Second, Held},
		"what is left of MaxHold":  {20*time.Second - time.Millisecond, 20 * time.Second, Confirming},
		"less than a MaxHold long": {ttl, time.Hour, Held},
	} {
		l := newLife(func(t *protocol.Terms) { t.MaxHold = test.maxHold })
		l.Manual = true
		asking(l)
		if l.answer(granted(test.left)); l.State != test.want {
			t.Errorf("%s: state %d, want %d", name, l.State, test.want)
		}
	}
}

// TestPlaceIsAsLastHeard: a reply without a place leaves the last one.
func TestPlaceIsAsLastHeard(t *testing.T) {
	t.Parallel()
	l := newLife()
	l.Places = true
	l.Ask(l.now)
	state := func(a *Answer) { a.Used, a.Waiting, a.Paused, a.Pin = 2, 5, true, 1 }
	want := Place{Ahead: 2, Used: 2, Limit: 1, Waiting: 5, Paused: true, Pinned: true}
	if effect := l.answer(queued, state); effect != Wake || l.Place != want {
		t.Errorf("effects %b, %+v, want %+v", effect, l.Place, want)
	}
	for _, ahead := range []int{-1, 1, 0} {
		l.answer(protocol.Result{Code: protocol.Queued, Ahead: ahead})
		want := ahead
		if ahead < 0 {
			want = 2
		}
		if l.Place.Ahead != want || l.Place.Pinned {
			t.Errorf("told %d: %+v", ahead, l.Place)
		}
	}
	if op := l.sent(); !op.Flag {
		t.Error("its place is not asked for")
	}
}

// TestRefusalTellsWhy: the limit that stood in the way, and when it may be tried again.
func TestRefusalTellsWhy(t *testing.T) {
	t.Parallel()
	now := int64(1_790_000_000_000)
	for name, test := range map[string]struct {
		from   func(*life)
		answer protocol.Result
		next   int64
		there  int // hold or wait
		want   Refusal
	}{
		"busy":                   {asking, protocol.Result{Code: protocol.Busy, Limit: 9}, now + 2500, 1, Refusal{Code: protocol.Busy, Limit: 3, Next: 2500 * time.Millisecond}},
		"busy, nobody expires":   {asking, protocol.Result{Code: protocol.Busy}, 0, 0, Refusal{Code: protocol.Busy, Limit: 3}},
		"busy, of a tombstone":   {asking, protocol.Result{Code: protocol.Busy}, now + 2500, 0, Refusal{Code: protocol.Busy, Limit: 3}},
		"full, due already":      {asking, protocol.Result{Code: protocol.Full}, now - 5, 1, Refusal{Code: protocol.Full, Limit: 3, Next: time.Millisecond}},
		"too heavy":              {asking, protocol.Result{Code: protocol.Heavy, Limit: 9}, 0, 0, Refusal{Code: protocol.Heavy, Limit: 9}},
		"too heavy in the queue": {waiting, gone(protocol.TooHeavy), 0, 0, Refusal{Code: protocol.Heavy, Limit: 3}},
	} {
		l := newLife()
		test.from(l)
		l.answer(test.answer, func(a *Answer) { a.Next, a.Waiting = test.next, test.there })
		got, ok := errors.AsType[*Refusal](l.Err)
		if !ok || got.Name != "name" || got.Weight != 1 || got.Code != test.want.Code || got.Limit != test.want.Limit || got.Next != test.want.Next {
			t.Errorf("%s: %+v, want %+v", name, l.Err, test.want)
		}
	}
}

// late has an answer come when the lease cannot be relied on any more.
func late(a *Answer) { a.Got = a.Sent.Add(ttl) }

// short has a renewal answered that reached the lease's ceiling.
func short(l *life) { l.answer(renewal(time.Second)) }

// TestRenewalAskedForMeanwhile: the answer to the one before does not settle it.
func TestRenewalAskedForMeanwhile(t *testing.T) {
	t.Parallel()
	l := newLife()
	held(l)
	l.Renew(l.now)
	op := l.sent()
	sent := l.now
	l.pass(time.Second)
	l.Renew(l.now)
	op.Result = renewed
	a := &Answer{Sent: sent, Got: l.now}
	if effect := l.Answered(&op, a); effect != Send|Wake || l.State != Held || l.Next() != sent.Add(Timeout) {
		t.Errorf("effects %b, state %d, next after %v", effect, l.State, l.Next().Sub(sent))
	}
	if op := l.sent(); op.Verb != protocol.Renew {
		t.Errorf("%c is sent", op.Verb)
	}
	if effect := l.answer(renewed); effect&Report == 0 || l.Outcome != nil {
		t.Errorf("effects %b, outcome %v", effect, l.Outcome)
	}
}

// TestReplicas: a grant that too few have is given back, and a renewal does not count.
func TestReplicas(t *testing.T) {
	t.Parallel()
	counted := func(n int) func(*Answer) { return func(a *Answer) { a.Replicas = n } }
	l := newLife(func(t *protocol.Terms) { t.MinReplicas = 2 })
	asking(l)
	if l.answer(granted(ttl)) != Send || l.State != Confirming {
		t.Fatalf("state %d before replicas have it", l.State)
	}
	if op := l.sent(); op.Replicas != 2 {
		t.Errorf("%d replicas are asked for", op.Replicas)
	}
	if l.answer(renewed, counted(2)); l.State != Held {
		t.Fatalf("state %d", l.State)
	}
	l.Renew(l.now)
	trust := l.Trust
	effect := l.answer(renewed, counted(1))
	why, ok := errors.AsType[*Unreplicated](l.Outcome)
	if effect != Report || !ok || why.Want != 2 || why.Got != 1 || l.Trust != trust || l.Next() != l.now.Add(time.Second) {
		t.Errorf("effects %b, %v, next after %v", effect, l.Outcome, l.Next().Sub(l.now))
	}
	l = newLife(func(t *protocol.Terms) { t.MinReplicas = 1 })
	asking(l)
	l.answer(granted(ttl))
	if effect := l.answer(renewed, counted(0)); effect != Send|Wake || l.State != Leaving {
		t.Errorf("effects %b, state %d", effect, l.State)
	}
}

// TestHeardOfItsEnd: whoever renews by hand is looked after without a renewal.
func TestHeardOfItsEnd(t *testing.T) {
	t.Parallel()
	for manual, want := range map[bool]protocol.Verb{true: protocol.Heartbeat, false: protocol.Renew} {
		l := newLife()
		l.Manual = manual
		held(l)
		if l.HeardEnd() != Send || l.sent().Verb != want {
			t.Errorf("by hand %v: %c is sent, want %c", manual, l.sent().Verb, want)
		}
		if effect := l.reply(protocol.Op{Verb: protocol.Heartbeat}, granted(ttl)); effect != 0 || l.State != Held {
			t.Errorf("still there: effects %b, state %d", effect, l.State)
		}
	}
	for _, from := range []func(*life){asking, lost, releasing} {
		l := newLife()
		from(l)
		if effect := l.HeardEnd(); effect != 0 {
			t.Errorf("state %d: effects %b", l.State, effect)
		}
	}
}

// TestAnswerToWhatIsNotWantedAnyMore changes nothing.
func TestAnswerToWhatIsNotWantedAnyMore(t *testing.T) {
	t.Parallel()
	froms := []func(*life){asking, waiting, confirming, adopting, detaching, held, lost, releasing}
	wanted := map[State]string{Asking: "A", Queued: "H", Confirming: "R", Adopting: "M", Detaching: "M", Held: "HR", Leaving: "L"}
	for _, from := range froms {
		for _, verb := range []protocol.Verb{protocol.Acquire, protocol.Heartbeat, protocol.Renew, protocol.Move, protocol.Release} {
			l := newLife()
			from(l)
			if strings.IndexByte(wanted[l.State], byte(verb)) >= 0 {
				continue
			}
			before := *l.Claim
			before.newID = nil
			effect := l.reply(protocol.Op{Verb: verb}, gone(protocol.Unknown))
			after := *l.Claim
			after.newID = nil
			if effect != 0 || after.State != before.State || after.Err != before.Err || after.Next() != before.Next() {
				t.Errorf("state %d, an answer to %c: effects %b, state %d", before.State, verb, effect, after.State)
			}
		}
	}
}

// TestRenewedByHandIsLookedAtAgain: a renewal that was asked for is not repeated.
func TestRenewedByHandIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	l := newLife()
	l.Manual = true
	held(l)
	l.Renew(l.now)
	l.answer(renewed)
	if l.HeardEnd(); l.sent().Verb != protocol.Heartbeat {
		t.Errorf("%c is sent", l.sent().Verb)
	}
}

// TestAnswerAsTrustEnds is an answer that is too late.
func TestAnswerAsTrustEnds(t *testing.T) {
	t.Parallel()
	atTrust := func(a *Answer) { a.Got = a.Sent.Add(trusted) }
	l := newLife()
	confirming(l)
	if effect := l.answer(renewed, atTrust); effect != Send || l.State != Confirming {
		t.Errorf("effects %b, state %d", effect, l.State)
	}
	l = newLife()
	asking(l)
	if effect := l.answer(granted(ttl), atTrust); effect != Send || l.State != Confirming {
		t.Errorf("a grant: effects %b, state %d", effect, l.State)
	}
}
