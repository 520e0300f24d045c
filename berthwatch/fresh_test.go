package berthwatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// fresh waits for a second at most, and returns what is known then, and how long it took.
func fresh(e *testenv.Env, s *Sampler) (View, time.Duration) {
	ctx, cancel := context.WithTimeout(e.Ctx, time.Second)
	defer cancel()
	begun := time.Now()
	s.Wait(ctx, "")
	return s.Look(), time.Since(begun)
}

// TestWaitForTheFirstSample, and for one after a sleep, and at no other time.
func TestWaitForTheFirstSample(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		s, m := start(e, 3, nil)
		if v, took := fresh(e, s); len(v.Rows) != 3 || !v.Whole || took > 500*time.Millisecond {
			t.Errorf("the first after %v: %+v", took, v)
		}
		e.Pass(10 * time.Second)
		synctest.Wait() // a sample may be due now
		before := m.samples.Load()
		for range 100 {
			if v, took := fresh(e, s); len(v.Rows) != 3 || took > 0 {
				t.Fatalf("while it is awake, after %v: %+v", took, v)
			}
		}
		if n := m.samples.Load(); n != before {
			t.Errorf("%d samples for a hundred looks", n-before)
		}
		e.Pass(10 * time.Minute)
		if err := e.Peer().Inspector().Pin(t.Context(), "new", 1); err != nil {
			t.Fatal(err)
		}
		if v, took := fresh(e, s); len(v.Rows) != 4 || !v.Whole || time.Since(v.At) > time.Second || took > 500*time.Millisecond {
			t.Errorf("after a sleep: %d rows, %v old, after %v", len(v.Rows), time.Since(v.At), took)
		}
	})
}

// TestSleepEndsAnError: what failed before it says nothing of now, so who waits is told of neither
// the error nor a part of the list.
func TestSleepEndsAnError(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		start(e, 3, nil)
		p := e.Peer()
		s := run(e, p.Inspector(), Options{})
		lookFor(e, s, 5*time.Second)
		p.Net.Down()
		if v := lookFor(e, s, 20*time.Second); v.Err == nil || v.SearchErr == nil {
			e.Errorf("in an outage: %v, and of the search %v", v.Err, v.SearchErr)
		}
		e.Pass(2 * idle)
		p.Net.Up()
		for delay, match := range map[time.Duration]func(redistest.Command) bool{
			100 * time.Millisecond: redistest.IsScript, 200 * time.Millisecond: redistest.Named("SCAN"),
		} {
			held := p.Net.Inject(redistest.Rule{Match: match, Fault: redistest.DelayReply, Times: -1})
			time.AfterFunc(delay, held.Release)
		}
		s.Look()
		e.Pass(time.Millisecond) // it is awake, and has read nothing yet
		if v, took := fresh(e, s); v.Err != nil || v.SearchErr != nil || !v.Whole || len(v.Rows) != 3 {
			e.Errorf("after %v: %v, of the search %v, %d rows, all: %v", took, v.Err, v.SearchErr, len(v.Rows), v.Whole)
		}
	})
}

// TestRowsFromBeforeASleepAreNotWhole: neither who looks first, nor while the search after it has
// found names that the sample under way lacks.
func TestRowsFromBeforeASleepAreNotWhole(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		s, m := start(e, 3, nil)
		lookFor(e, s, 5*time.Second)
		e.Pass(2 * idle)
		e.Must(e.Peer().Inspector().Pin(e.Ctx, "new", 1))
		m.sample.Store(int64(time.Second))
		if v := s.Look(); v.Whole {
			e.Errorf("the first look: %+v", v)
		}
		found := false
		for range 40 {
			e.Pass(100 * time.Millisecond)
			v := s.Look()
			if v.Whole && len(v.Rows) != 4 {
				e.Fatalf("without what came into use meanwhile: %+v", v)
			}
			found = found || v.Whole
		}
		if !found {
			e.Error("it is never whole")
		}
	})
}

// TestWaitGivesUp when ctx ends, and at once when sampling fails.
func TestWaitGivesUp(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		p := e.Peer()
		hung := p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1})
		s := run(e, p.Inspector(), Options{})
		if v, took := fresh(e, s); took != time.Second || !v.At.IsZero() {
			t.Errorf("Redis hangs: after %v, %+v", took, v)
		}
		hung.Stop()
		p.Net.Down()
		lookFor(e, s, 5*time.Second)
		if v, took := fresh(e, s); took > 0 || !errors.Is(v.Err, berth.ErrUnreachable) {
			t.Errorf("Redis is away: after %v, %v", took, v.Err)
		}
	})
}

// TestAgesOfLeases: the oldest that still lives, and the first to come to its MaxHold; of a
// semaphore with many nothing.
func TestAgesOfLeases(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		p, crashed := e.Peer(), e.Peer()
		e.Hold(crashed.Named("z", 9))
		crashed.Crash()
		first := e.Hold(p.Named("a", 9, berth.MaxHold(time.Hour)))
		began := time.Now()
		e.Pass(10 * time.Second)
		e.Hold(p.Named("a", 9, berth.MaxHold(10*time.Minute)))
		e.Hold(p.Named("b", 1))
		crowd := p.Named("crowd", 501)
		for range 501 {
			e.Hold(crowd)
		}
		e.Pass(time.Minute) // what crashed has run out, and nobody has asked for it since
		s, m := start(e, 1, func(o *Options) { o.Leases = true })
		about := func(what string, got, want time.Time) {
			t.Helper()
			if d := got.Sub(want); d < -50*time.Millisecond || d > 50*time.Millisecond {
				t.Errorf("%s: %v off", what, d)
			}
		}
		v := lookFor(e, s, 2*time.Second)
		about("the oldest", v.Rows[0].Oldest, began)
		about("the first ceiling", v.Rows[0].Ceiling, began.Add(10*time.Minute+10*time.Second))
		if v.Rows[1].Oldest.IsZero() || !v.Rows[1].Ceiling.IsZero() || !v.Rows[2].Oldest.IsZero() || v.Rows[2].Name != "crowd" ||
			v.Rows[4].Holders != 1 || !v.Rows[4].Oldest.IsZero() {
			t.Errorf("rows %+v", v.Rows[1:])
		}
		e.Release(first)
		v = lookFor(e, s, 12*time.Second)
		about("after its release", v.Rows[0].Oldest, began.Add(10*time.Second))
		// Each sample is one call here, and each tenth two.
		before := m.samples.Load()
		lookFor(e, s, 100*time.Second)
		if n := m.samples.Load() - before; n < 105 || n > 115 {
			t.Errorf("%d calls in a hundred seconds", n)
		}
	})
}

// TestLongQueueKeepsNothingFromView: to read it takes longer than a call may take.
func TestLongQueueKeepsNothingFromView(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		const waiters = 600
		p := e.Peer()
		e.Hold(p.Named("a", 1))
		e.Hold(p.Sem(1))
		for range waiters {
			e.Start(p.Sem(1))
		}
		e.UntilWaiting(waiters)
		s, m := start(e, 1, func(o *Options) { o.Leases = true })
		m.sample.Store(int64(900 * time.Millisecond))
		st, err := e.Inspector.Show(e.Ctx, testenv.Name)
		if err != nil || len(st.Leases) != 1 || len(st.Queue) != waiters {
			e.Errorf("Show: %v", err)
		}
		v, detail := lookAt(e, s, testenv.Name, 30*time.Second)
		if v.Err != nil || len(v.Rows) != 3 || v.Rows[2].Waiting != waiters || v.Rows[0].Oldest.IsZero() || !v.Rows[2].Oldest.IsZero() {
			e.Errorf("%v, rows %+v", v.Err, v.Rows)
		}
		if detail.Err != nil || detail.State == nil || len(detail.State.Queue) != waiters {
			e.Errorf("in full: %v", detail.Err)
		}
	})
}

// TestQueueWithoutAnEnd: its heartbeats are faster than the reader. The list goes on.
func TestQueueWithoutAnEnd(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		const waiters = 1500
		p := e.Peer()
		s := p.Sem(1, berth.TTL(1500*time.Millisecond))
		e.Hold(s)
		for range waiters {
			e.Start(s)
		}
		e.UntilWaiting(waiters)
		sampler, m := start(e, 0, nil)
		m.sample.Store(int64(400 * time.Millisecond))
		v, detail := lookAt(e, sampler, testenv.Name, 70*time.Second)
		if age := time.Since(v.At); age > time.Minute || len(v.Rows) != 1 {
			e.Errorf("the list is %v old: %v, rows %+v", age, v.Err, v.Rows)
		}
		if detail.Err == nil {
			e.Errorf("in full: %+v", detail)
		}
	})
}

// TestLeasesAreNotReadForNothing: only who asks for their ages pays for them.
func TestLeasesAreNotReadForNothing(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		e.Hold(e.Peer().Sem(1))
		s, m := start(e, 1, nil)
		v := lookFor(e, s, 100*time.Second)
		if n := m.samples.Load(); n > 105 || !v.Rows[1].Oldest.IsZero() {
			e.Errorf("%d calls in a hundred seconds; %+v", n, v.Rows[1])
		}
	})
}
