package commit

import (
	"testing"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// TestFewCallsHang: while so many calls have been given up and have no outcome that another one
// would most likely hang, too, nothing is sent. The first outcome makes room.
func TestFewCallsHang(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	a := newItem(1)
	var hanging []*Call[*item]
	for range mostHanging {
		q.Put(&a.op, false)
		call := q.Next(born, prepare)
		wantCall(t, call, "1")
		q.GiveUp()
		if !call.hangs || q.InFlight() != nil {
			t.Fatal("what was given up is in flight, and does not hang")
		}
		hanging = append(hanging, call)
	}
	q.Put(&a.op, false)
	if q.Due(born) || q.Next(born, prepare) != nil || q.Wakeup() != clock.Never {
		t.Fatalf("with %d hanging calls there is another one", mostHanging)
	}
	first := hanging[0]
	if q.Return(first) || first.hangs || q.Return(first) {
		t.Error("an outcome that comes late counts as one in time")
	}
	wantCall(t, q.Next(born, prepare), "1")
}

// TestStoppedQueueSendsNothing: neither what is wanted, nor again what is in flight.
func TestStoppedQueueSendsNothing(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	a := newItem(1)
	q.Put(&a.op, false)
	call := q.Next(born, prepare)
	q.Stop()
	if q.Overdue(clock.Never) != nil || q.Wakeup() != clock.Never {
		t.Error("a stopped queue wants to be looked at")
	}
	q.Return(call)
	q.Put(&a.op, false)
	q.Probe()
	if q.Due(born) || q.Next(born, prepare) != nil {
		t.Error("a stopped queue has another call")
	}
}

// TestErrIsOfTheLastCall: a late answer does not excuse the call that was given up.
func TestErrIsOfTheLastCall(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	why := protocol.NoAnswer()
	q.Failed(born, why)
	if q.AnsweredLate(); q.Err() != error(why) {
		t.Errorf("after a late answer: %v", q.Err())
	}
	if q.Answered(); q.Err() != nil {
		t.Errorf("after an answer in time: %v", q.Err())
	}
	rejected := &protocol.Failure{Kind: protocol.ErrRejected}
	if q.Failed(born, rejected); q.Err() != error(rejected) || q.retryAt != 0 {
		t.Errorf("what was rejected is repeated after a pause; error %v", q.Err())
	}
}

// TestPausesDouble: each is twice the one before, give or take a half of it.
func TestPausesDouble(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	q.Failed(born, protocol.NoAnswer())
	for pause := leastPause; pause < mostPause; pause *= 2 {
		q.Failed(born, protocol.NoAnswer())
		if got := q.retryAt.Sub(born); got < pause/2 || got >= pause+pause/2 {
			t.Errorf("a pause of %v, want about %v", got, pause)
		}
	}
}

// TestFailureBeforeOneOther: what failed goes before the only operation that came meanwhile, too.
func TestFailureBeforeOneOther(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	a, b := newItem(1), newItem(2)
	q.Put(&a.op, false)
	call := q.Next(born, prepare)
	q.Put(&b.op, false)
	if q.InFlight() != call || !q.Return(call) || q.InFlight() != nil {
		t.Error("a call is in flight until it returns")
	}
	q.Put(&a.op, false)
	wantCall(t, q.Next(born, prepare), "1", "2")
}

// TestNothingToSendWakesNobody: not even as the pause after a failure ends.
func TestNothingToSendWakesNobody(t *testing.T) {
	t.Parallel()
	var q Queue[*item]
	q.Failed(born, &protocol.Failure{Kind: protocol.ErrRefused})
	if q.Wakeup() != clock.Never {
		t.Errorf("woken %v after the failure", q.Wakeup().Sub(born))
	}
}

// TestCallHasMoreTimeThanTheLastAnswerTook, whatever it carries, and so has what waits for it.
func TestCallHasMoreTimeThanTheLastAnswerTook(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, time.Second: 2 * time.Second, 4 * time.Second: 6 * time.Second,
	} {
		q := Queue[*item]{Took: took}
		a := newItem(1)
		a.timeout = 2 * time.Second
		for what, put := range map[string]func(){"an operation": func() { q.Put(&a.op, false) }, "nothing": q.Probe} {
			put()
			call := q.Next(born, prepare)
			q.Hurry(born, time.Second)
			if got, waits := call.Deadline.Sub(born), q.Wakeup().Sub(born); got != want || waits != max(time.Second, took+took/2) {
				t.Errorf("%s, after %v: %v, and others wait for %v, want %v", what, took, got, waits, want)
			}
			q.Return(call)
		}
	}
}
