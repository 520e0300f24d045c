package commit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

const born = clock.Instant(1000 * time.Hour)

// item is what has operations in a queue under test.
type item struct {
	op      Op[*item]
	id      string
	verb    protocol.Verb
	nothing bool // it wants nothing any more
	timeout time.Duration
}

func newItem(n int) *item {
	i := &item{id: fmt.Sprint(n), verb: protocol.Renew, timeout: time.Hour}
	i.op.Of = i
	return i
}

func prepare(i *item, _ clock.Instant) (protocol.Op, time.Duration, bool) {
	return protocol.Op{Verb: i.verb, ID: i.id}, i.timeout, !i.nothing
}

func ids(c *Call[*item]) (all []string) {
	if c != nil {
		for _, op := range c.Wire {
			all = append(all, op.ID)
		}
	}
	return all
}

func wantCall(t *testing.T, c *Call[*item], want ...string) {
	t.Helper()
	if got := ids(c); !slices.Equal(got, want) {
		t.Fatalf("the call carries %v, want %v", got, want)
	}
}

// TestOneCallCarriesWhatGathered: while a call is in flight nothing else starts, and
// the next one carries all, releases first.
func TestOneCallCarriesWhatGathered(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	a, b, c, d := newItem(1), newItem(2), newItem(3), newItem(4)
	q.Put(&a.op, false)
	first := q.Next(born, prepare)
	wantCall(t, first, "1")
	for _, i := range []*item{b, c} {
		q.Put(&i.op, false)
	}
	q.Put(&d.op, true)
	if call := q.Next(born, prepare); call != nil {
		t.Fatalf("a second call started: %v", ids(call))
	}
	if !q.Return(first) || q.Return(first) {
		t.Fatal("a call returns once")
	}
	q.Reuse(first)
	second := q.Next(born, prepare)
	wantCall(t, second, "4", "2", "3")
	q.Return(second)
	if call := q.Next(born, prepare); call != nil {
		t.Fatalf("nothing is wanted, and %v is sent", ids(call))
	}
}

// TestOneOperationAtATime: what is wanted while an operation is in flight goes with
// the next call, once.
func TestOneOperationAtATime(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	a := newItem(1)
	q.Put(&a.op, false)
	q.Put(&a.op, false)
	first := q.Next(born, prepare)
	wantCall(t, first, "1")
	q.Put(&a.op, false)
	q.Put(&a.op, true)
	q.Return(first)
	second := q.Next(born, prepare)
	wantCall(t, second, "1")
	q.Return(second)
	wantCall(t, q.Next(born, prepare))
}

// TestWhatNobodyWantsIsNotSent: neither what was removed nor what has come to want
// nothing; and both may come again.
func TestWhatNobodyWantsIsNotSent(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	a, b, c := newItem(1), newItem(2), newItem(3)
	for _, i := range []*item{a, b, c} {
		q.Put(&i.op, false)
	}
	q.Remove(&a.op)
	b.nothing = true
	call := q.Next(born, prepare)
	wantCall(t, call, "3")
	q.Put(&c.op, false)
	q.Remove(&c.op) // it is in flight: it only does not go again
	q.Return(call)
	b.nothing = false
	q.Put(&b.op, false)
	q.Put(&a.op, true)
	wantCall(t, q.Next(born, prepare), "1", "2")
}

// TestOrderOutlastsFailures: what a call that failed carried goes before what came while it was
// in flight, however often calls fail, and whatever wants to go again first.
func TestOrderOutlastsFailures(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	items := make([]*item, 9)
	var want []string
	for n := range items {
		items[n] = newItem(n)
		want = append(want, items[n].id)
	}
	now := born
	for n := 0; n < len(items); n += 3 {
		for _, i := range items[n : n+3] {
			q.Put(&i.op, false)
		}
		call := q.Next(now, prepare)
		wantCall(t, call, want[:n+3]...)
		q.Return(call)
		q.Failed(now, protocol.NoAnswer())
		for i := n + 2; i >= 0; i-- {
			q.Put(&items[i].op, false)
		}
		now = max(now, q.retryAt)
	}
	wantCall(t, q.Next(now, prepare), want...)
}

// TestReleaseOvertakes what the same item wanted before, and others.
func TestReleaseOvertakes(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	a, b := newItem(1), newItem(2)
	q.Put(&a.op, false)
	q.Put(&b.op, false)
	q.Put(&b.op, true)
	wantCall(t, q.Next(born, prepare), "2", "1")
}

// TestCallIsBounded by the ids that the protocol allows, of which a move names two. The
// rest goes with the next calls, in its order.
func TestCallIsBounded(t *testing.T) {
	t.Parallel()
	for name, moves := range map[string]func(n int) bool{
		"no move":    func(int) bool { return false },
		"one move":   func(n int) bool { return n == protocol.MaxIDs-1 },
		"every 2nd":  func(n int) bool { return n%2 == 0 },
		"moves only": func(int) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var q Queue[*item]
			var want, got []string
			for n := range 3 * protocol.MaxIDs {
				i := newItem(n)
				if moves(n) {
					i.verb = protocol.Move
				}
				q.Put(&i.op, false)
				want = append(want, i.id)
			}
			for len(got) < len(want) {
				call := q.Next(born, prepare)
				named := 0
				for i := range call.Wire {
					named += call.Wire[i].Named()
				}
				got = append(got, ids(call)...)
				if named > protocol.MaxIDs || named <= protocol.MaxIDs-protocol.MostNamed && len(got) < len(want) {
					t.Fatalf("a call names %d ids, want %d at most, and no more than a move less", named, protocol.MaxIDs)
				}
				q.Return(call)
				q.Reuse(call)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("sent %v, want %v", got, want)
			}
		})
	}
}

// TestMovesOfOneLeaseTravelApart: a call must not name an id twice, or nothing of it happens.
func TestMovesOfOneLeaseTravelApart(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	for _, n := range []int{1, 1, 2, 1, 3} {
		i := newItem(n)
		i.verb, i.op.Shared = protocol.Move, true
		q.Put(&i.op, false)
	}
	for _, want := range [][]string{{"1"}, {"1", "2"}, {"1", "3"}} {
		call := q.Next(born, prepare)
		wantCall(t, call, want...)
		q.Return(call)
		q.Reuse(call)
	}
}

// TestTimeoutIsTheLeast of those in the call, within bounds.
func TestTimeoutIsTheLeast(t *testing.T) {
	t.Parallel()
	for want, timeouts := range map[time.Duration][]time.Duration{
		300 * time.Millisecond: {time.Second, 300 * time.Millisecond},
		time.Hour:              {2 * time.Hour, time.Hour},
		leastTimeout:           {time.Hour, time.Nanosecond},
	} {
		var q Queue[*item]
		for n, d := range timeouts {
			i := newItem(n)
			i.timeout = d
			q.Put(&i.op, n == 0)
		}
		if call := q.Next(born, prepare); call.Deadline.Sub(born) != want || q.Wakeup() != call.Deadline {
			t.Errorf("a call of timeouts %v: %v, wakes in %v, want %v", timeouts, call.Deadline.Sub(born), q.Wakeup().Sub(born), want)
		}
	}
}

// TestGivenUpCallIsDropped: its outcome does not matter any more when it comes, and
// what it carried is sent meanwhile.
func TestGivenUpCallIsDropped(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	a := newItem(1)
	q.Put(&a.op, false)
	call := q.Next(born, prepare)
	if q.Overdue(call.Deadline-1) != nil || q.Overdue(call.Deadline) != call {
		t.Fatal("a call is overdue at its deadline, not before")
	}
	q.Return(call)
	q.Put(&a.op, false)
	wantCall(t, q.Next(call.Deadline, prepare), "1")
	if q.Return(call) {
		t.Fatal("a call that was given up returned")
	}
}

// TestCallDoesNotDelayTheImpatient: what is put while a call is in flight bounds how long it
// waits for that call, but never makes the call longer, nor the next one shorter.
func TestCallDoesNotDelayTheImpatient(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	a := newItem(1)
	q.Probe()
	call := q.Next(born, prepare)
	put := born.Add(50 * time.Millisecond)
	for _, step := range []struct{ timeout, want time.Duration }{
		{time.Hour, emptyTimeout},
		{300 * time.Millisecond, 350 * time.Millisecond},
		{400 * time.Millisecond, 350 * time.Millisecond},
		{time.Nanosecond, 50*time.Millisecond + leastTimeout},
	} {
		q.Put(&a.op, false)
		q.Hurry(put, step.timeout)
		at := born.Add(step.want)
		if q.Wakeup() != at || q.Overdue(at-1) != nil || q.Overdue(at) != call {
			t.Fatalf("after %v: it is given up after %v, want %v", step.timeout, q.Wakeup().Sub(born), step.want)
		}
	}
	if call.Deadline.Sub(born) != emptyTimeout {
		t.Errorf("the call's own deadline became %v", call.Deadline.Sub(born))
	}
	q.Return(call)
	if call = q.Next(put, prepare); q.Wakeup() != call.Deadline || call.Deadline.Sub(put) != a.timeout {
		t.Errorf("the next call is given up after %v", q.Wakeup().Sub(put))
	}
}

// TestOvertakenCallDelaysNobody: a call made earlier was answered since, so what is put now waits
// the least; the next call is like any other.
func TestOvertakenCallDelaysNobody(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	a := newItem(1)
	q.Put(&a.op, false)
	call := q.Next(born, prepare)
	q.AnsweredLate()
	q.Put(&a.op, false)
	q.Hurry(born, time.Hour)
	if at := born.Add(leastTimeout); q.Overdue(at) != call || q.Overdue(at-1) != nil {
		t.Errorf("it is given up after %v", q.Wakeup().Sub(born))
	}
	q.Return(call)
	q.Next(born, prepare)
	q.Hurry(born, time.Minute)
	if at := born.Add(time.Minute); q.Wakeup() != at {
		t.Errorf("the next call is given up after %v", q.Wakeup().Sub(born))
	}
}

// TestPausesGrow between failing calls and end with a success. The first repetition
// after a connection broke comes at once: it may have been idle for long.
func TestPausesGrow(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	a := newItem(1)
	now := born
	fail := func(err error) time.Duration {
		q.Put(&a.op, false)
		call := q.Next(now, prepare)
		if call == nil {
			t.Fatal("no call")
		}
		q.Return(call)
		q.Failed(now, err)
		q.Put(&a.op, false)
		if q.Next(now, prepare) != nil {
			q.Return(q.call)
			return 0
		}
		pause := q.Wakeup().Sub(now)
		now = now.Add(pause)
		return pause
	}
	if pause := fail(&protocol.Failure{Kind: protocol.ErrUnknown}); pause != 0 {
		t.Fatalf("a pause of %v after a connection broke", pause)
	}
	q.Answered()
	if pause := fail(protocol.NoAnswer()); pause <= 0 || pause > leastPause {
		t.Fatalf("a pause of %v after a call had no answer", pause)
	}
	longest := time.Duration(0)
	for range 20 {
		longest = max(longest, fail(protocol.NoAnswer()))
	}
	if longest > mostPause+mostPause/2 || longest < mostPause/2 {
		t.Errorf("pauses grow up to %v", longest)
	}
	q.Answered()
	if pause := fail(&protocol.Failure{Kind: protocol.ErrRefused}); pause <= 0 || pause > leastPause {
		t.Errorf("a pause of %v after the first refusal", pause)
	}
}

// TestProbeIsACall, even an empty one, and only one.
func TestProbeIsACall(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	q.Probe()
	q.Probe()
	call := q.Next(born, prepare)
	if call == nil || len(call.Ops) != 0 {
		t.Fatalf("a probe makes the call %v", call)
	}
	q.Return(call)
	if q.Next(born, prepare) != nil {
		t.Fatal("a second probe")
	}
}

// TestNothingIsForgottenOrDoubled: whatever the order of events, an item that wants
// something is on its way, and no call carries it twice.
func TestNothingIsForgottenOrDoubled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[*item]
		items := make([]*item, 6)
		wanted := map[*item]bool{}
		for n := range items {
			items[n] = newItem(n)
		}
		var call *Call[*item]
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			i := items[rapid.IntRange(0, len(items)-1).Draw(t, "item")]
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0, 1:
				q.Put(&i.op, rapid.Bool().Draw(t, "release"))
				wanted[i] = true
			case 2:
				q.Remove(&i.op)
				delete(wanted, i)
			case 3:
				if call = cmpOr(call, q.Next(born, prepare)); call == nil {
					continue
				}
				seen := map[*item]bool{}
				for _, op := range call.Ops {
					if seen[op.Of] {
						t.Fatalf("%s is twice in a call", op.Of.id)
					}
					seen[op.Of] = true
				}
			case 4:
				if call == nil {
					continue
				}
				for _, op := range call.Ops {
					if !op.again {
						delete(wanted, op.Of)
					}
				}
				q.Return(call)
				call = nil
			}
		}
		if call != nil {
			for _, op := range call.Ops {
				if !op.again {
					delete(wanted, op.Of)
				}
			}
			q.Return(call)
		}
		sendsJust(t, &q, wanted)
	})
}

// sendsJust makes calls until nothing is wanted any more, and wants them to carry what is wanted.
func sendsJust(t *rapid.T, q *Queue[*item], wanted map[*item]bool) {
	sent := map[*item]bool{}
	for call := q.Next(born, prepare); call != nil; call = q.Next(born, prepare) {
		for _, op := range call.Ops {
			sent[op.Of] = true
		}
		q.Return(call)
	}
	for i := range wanted {
		if !sent[i] {
			t.Fatalf("%s was forgotten", i.id)
		}
	}
	for i := range sent {
		if !wanted[i] {
			t.Fatalf("%s is sent, and nobody wants it", i.id)
		}
	}
}

func cmpOr(a, b *Call[*item]) *Call[*item] {
	if a != nil {
		return a
	}
	return b
}

// TestCallTellsWhenItWasSent, is used again, and keeps nothing of what it carried.
func TestCallTellsWhenItWasSent(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	a := newItem(1)
	var last *Call[*item]
	for i := range 3 {
		now := born.Add(time.Duration(i) * time.Second)
		q.Put(&a.op, i == 1)
		call := q.Next(now, prepare)
		if call.Sent != now || last != nil && call != last {
			t.Fatalf("call %d was sent at %v, want %v; is it used again: %v", i, call.Sent, now, call == last)
		}
		if q.Len() != 0 {
			t.Fatalf("%d places are left of what is in flight", q.Len())
		}
		q.Return(call)
		q.Reuse(call)
		if ops, wire := call.Ops[:1], call.Wire[:1]; ops[0] != nil || wire[0] != (protocol.Op{}) {
			t.Fatalf("the call keeps %v, %v", ops[0], wire[0])
		}
		last = call
	}
	if places := q.line[:1]; places[0] != nil {
		t.Error("the queue keeps an operation that was sent")
	}
}
