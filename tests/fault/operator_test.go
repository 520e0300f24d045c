package fault_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// verdict is an operator's request under a fault: done is what the operator
// asked for, as the state shows it.
type verdict struct {
	name string
	verb string
	ask  func(ctx context.Context, in *berthadmin.Inspector) error
	done func(st *berthadmin.State) bool
	// again is the answer to asking again when it has happened already.
	again error
}

// verdicts work on a semaphore with limit 1, a holder "h" and two waiters, the
// first of them "w".
func verdicts(holder, waiter string) []verdict {
	return []verdict{
		{
			"resize", "D", func(ctx context.Context, in *berthadmin.Inspector) error { return in.Resize(ctx, "s", 2) },
			func(st *berthadmin.State) bool { return st.Limit == 2 && st.LimitChanges == 1 && st.Holders == 2 }, nil,
		},
		{
			"pin", "P", func(ctx context.Context, in *berthadmin.Inspector) error { return in.Pin(ctx, "s", 2) },
			func(st *berthadmin.State) bool { return st.Limit == 2 && st.Pinned && st.Holders == 2 }, nil,
		},
		{
			"pause", "Z", func(ctx context.Context, in *berthadmin.Inspector) error { return in.Pause(ctx, "s") },
			func(st *berthadmin.State) bool { return st.Paused && st.Holders == 1 }, nil,
		},
		{
			"evict a waiter", "E", func(ctx context.Context, in *berthadmin.Inspector) error { return in.Evict(ctx, "s", waiter) },
			func(st *berthadmin.State) bool { return st.Waiting == 1 && st.Queue[0].ID != waiter }, berthadmin.ErrNotFound,
		},
		{
			"evict a holder by force", "E", func(ctx context.Context, in *berthadmin.Inspector) error { return in.ForceEvict(ctx, "s", holder) },
			func(st *berthadmin.State) bool {
				return st.Holders == 1 && st.Leases[0].ID == waiter && st.Waiting == 1
			}, berthadmin.ErrNotFound,
		},
	}
}

// TestOperatorStruck: an operator is never told that something was done which
// was not, is told when it is not known, and asking again is harmless.
func TestOperatorStruck(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	type strike struct {
		n     int // of verdicts
		fault string
		real  bool
	}
	var all []strike
	for n := range verdicts("", "") {
		for fault := range faults {
			all = append(all, strike{n, fault, false}, strike{n, fault, true})
		}
	}
	name := func(s strike) string {
		where := map[bool]string{false: "embedded: ", true: "real: "}[s.real]
		return where + verdicts("", "")[s.n].name + ": " + s.fault
	}
	testenv.SideBySide(t, all, name, func(t *testing.T, s strike) {
		test := func(l *lab) { l.strikeVerdict(s.n, faults[s.fault]) }
		if s.real {
			onServer(t, server, test)
		} else {
			inBubble(t, test)
		}
	})
}

func (l *lab) strikeVerdict(n int, fault redistest.Fault) {
	s := l.sem(l.healthy(), 1, berth.TTL(long))
	holder := l.Hold(s)
	ctx, cancel := context.WithCancel(l.Ctx)
	first, second := l.queued(ctx, s, 1), l.queued(ctx, s, 2)
	v := verdicts(holder.ID(), l.Show().Queue[0].ID)[n]
	in := berthadmin.Of(l.faulty())
	l.Must(l.Timely(func() error { // connects
		_, err := in.Show(l.Ctx, "s")
		return err
	}))

	struck := l.net.Inject(redistest.Rule{Match: testenv.Carries(v.verb), Fault: fault})
	err := v.ask(l.Ctx, in)
	executed := fault != redistest.SwallowRequest && fault != redistest.Reset
	// A slow machine may not send it within the 2 seconds, or not have the answer by then.
	slow := !l.Exact && errors.Is(err, berth.ErrUnreachable) && (struck.Hits() == 0 || fault == redistest.Duplicate)
	switch {
	case slow:
	case fault == redistest.Duplicate && err != nil:
		l.Errorf("%s, sent twice: %v", v.name, err)
	case fault != redistest.Duplicate && !errors.Is(err, berth.ErrUnreachable):
		l.Errorf("%s, outcome unknown: %v", v.name, err)
	}
	if st := l.Show(); v.done(st) != executed && !slow {
		l.Errorf("%s: executed is %v, the server has %+v", v.name, executed, st)
	}
	var want error
	if executed {
		want = v.again
	}
	if sure, err := l.insist(func(ctx context.Context) error { return v.ask(ctx, in) }); sure && !slow && !errors.Is(err, want) {
		l.Errorf("%s, asked again: %v, want %v", v.name, err, want)
	}
	if st := l.Show(); !v.done(st) {
		l.Errorf("%s, asked again: the server has %+v", v.name, st)
	}
	cancel()
	l.clear(holder, first, second)
}

// clear ends an operator's test: whoever still holds gives it back.
func (l *lab) clear(holder *berth.Lease, waiting ...<-chan outcome) {
	l.Helper()
	for _, ch := range waiting {
		o := testenv.Receive(l, "end of the wait", ch)
		if o.err != nil {
			continue
		}
		// A grant lasts for a heartbeat's TTL, until the waiter hears of it and renews it.
		if err := l.GiveBack(o.lease); err != nil && !l.RanOut(err) {
			l.Errorf("Release of a waiter's lease: %v", err)
		}
	}
	if err := l.GiveBack(holder); err != nil && !errors.Is(err, berth.ErrEvicted) {
		l.Errorf("Release: %v", err)
	}
	_ = l.Inspector.Unpin(l.Context(), "s")  // there may be nothing to unpin,
	_ = l.Inspector.Resume(l.Context(), "s") // or to resume
	l.NothingLeft(1, holder.Token())
}

// TestOperatorsWordStruck is about the requests that the table cannot set up:
// those that end another one, and the eviction that asks.
func TestOperatorsWordStruck(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var all []strike
	for name := range faults {
		for _, op := range []operation{{"resume", "Z", long, struckResume}, {"unpin", "P", long, struckUnpin}, {"evict a holder", "E", long, struckEvict}} {
			all = append(all, strike{op, name})
		}
	}
	testenv.SideBySide(t, all, strike.String, func(t *testing.T, s strike) { inBubble(t, s.test) })
	testenv.SideBySide(t, all, func(s strike) string { return "real: " + s.String() }, func(t *testing.T, s strike) { onServer(t, server, s.test) })
}

// TestLateWordOfAnOperator: what the network delivers after the operator gave it up does not
// undo what was said since.
func TestLateWordOfAnOperator(t *testing.T) {
	inBubble(t, func(l *lab) {
		holder := l.Hold(l.sem(l.healthy(), 1))
		late := l.net.Inject(redistest.Rule{Match: testenv.Carries("Z", "P"), Fault: redistest.Delay, Times: 2})
		in := berthadmin.Of(l.faulty())
		l.WantErr(in.Pause(l.Ctx, "s"), berth.ErrUnreachable)
		l.WantErr(in.Pin(l.Ctx, "s", 3), berth.ErrUnreachable)
		l.Must(l.Inspector.Pin(l.Ctx, "s", 2))
		l.Pass(5 * time.Second)
		late.Release()
		l.Pass(time.Second)
		if st := l.Show(); st.Paused || st.Limit != 2 {
			l.Errorf("undone: %+v", st)
		}
		l.clear(holder)
	})
}

// insist asks until it is known to have happened. ErrNotFound, which it returns,
// says so too: there is nothing left to do. Unless it is sure, an earlier attempt may have
// done it.
func (l *lab) insist(ask func(ctx context.Context) error) (sure bool, err error) {
	l.Helper()
	attempts := 3
	if !l.Exact {
		attempts = 20 // the machine may be slow, too
	}
	for attempt := range attempts {
		err := ask(l.Ctx)
		if err == nil || errors.Is(err, berthadmin.ErrNotFound) {
			return attempt == 0 || l.Exact, err
		}
		if !errors.Is(err, berth.ErrUnreachable) {
			l.Fatalf("the operator was told %v", err)
		}
	}
	l.Fatal("asked in vain")
	return false, nil
}

func struckResume(l *lab, strike func() *redistest.Injection) {
	in := berthadmin.Of(l.faulty())
	_, _ = l.insist(func(ctx context.Context) error { return in.Pause(ctx, "s") })
	waiting := l.queued(l.Ctx, l.sem(l.healthy(), 1), 1)
	strike()
	_, _ = l.insist(func(ctx context.Context) error { return in.Resume(ctx, "s") })
	lease := l.granted(waiting)
	l.Release(lease)
	l.NothingLeft(1, lease.Token())
}

func struckUnpin(l *lab, strike func() *redistest.Injection) {
	in := berthadmin.Of(l.faulty())
	_, _ = l.insist(func(ctx context.Context) error { return in.Pin(ctx, "s", 0) })
	waiting := l.queued(l.Ctx, l.sem(l.healthy(), 1), 1)
	strike()
	_, _ = l.insist(func(ctx context.Context) error { return in.Unpin(ctx, "s") })
	lease := l.granted(waiting)
	l.Release(lease)
	l.NothingLeft(1, lease.Token())
}

// struckEvict: the holder hears of it, and its permit is free when it lets go.
func struckEvict(l *lab, strike func() *redistest.Injection) {
	lease := l.Hold(l.sem(l.healthy(), 1))
	held := lease.Context()
	waiting := l.queued(l.Ctx, l.sem(l.healthy(), 1), 1)
	in := berthadmin.Of(l.faulty())
	strike()
	_, _ = l.insist(func(ctx context.Context) error { return in.Evict(ctx, "s", lease.ID()) })
	testenv.Receive(l, "end of the lease", held.Done())
	if cause := context.Cause(held); !errors.Is(cause, berth.ErrEvicted) || !errors.Is(cause, berth.ErrLost) {
		l.Errorf("the lease ended with %v", cause)
	}
	if err := lease.Release(); !errors.Is(err, berth.ErrEvicted) {
		l.Errorf("Release: %v", err)
	}
	next := l.granted(waiting)
	l.Release(next)
	l.NothingLeft(1, next.Token())
}
