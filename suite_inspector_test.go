package berth_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
)

func TestInspectorShowsHoldersAndWaiters(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		a := e.hold(p.sem(3, berth.TTL(20*time.Second)), berth.Label("a"))
		b := e.hold(q.sem(3), berth.Label("b"), berth.Weight(2))
		e.queue(p.sem(3), berth.Label("c"))
		e.queue(q.sem(3), berth.Label("d"), berth.Weight(3))
		e.pass(20 * time.Millisecond)
		st, err := e.eye.Show(e.ctx, name)
		e.must(err)
		if st.Name != name || st.Limit != 3 || st.Declared != 3 || st.InUse != 3 || st.Holders != 2 || st.Waiting != 2 || st.Pinned || st.Paused || st.LimitChanges != 0 {
			e.t.Errorf("summary %+v", st.Summary)
		}
		if st.NextExpiry <= 0 || st.NextExpiry > 20*time.Second {
			e.t.Errorf("next expiry %v", st.NextExpiry)
		}
		if len(st.Leases) != 2 || len(st.Queue) != 2 {
			e.t.Fatalf("state %+v", st)
		}
		for i, want := range []*berth.Lease{a, b} {
			h := st.Leases[i]
			if h.ID != want.ID() || h.Label != want.Label() || h.Weight != want.Weight() || h.Held < 20*time.Millisecond || h.ExpiresIn <= 0 || h.Evicting {
				e.t.Errorf("holder %+v", h)
			}
		}
		for i, w := range st.Queue {
			if w.Ahead != i || w.Label != []string{"c", "d"}[i] || w.Weight != []int{1, 3}[i] || w.Waited < 19*time.Millisecond || w.ExpiresIn <= 0 {
				e.t.Errorf("waiter %+v", w)
			}
		}
	})
}

func TestInspectorListsByName(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		names := []string{"a", "a:order", "b c", `x*[a-z]\?`, "é", "日本"}
		for i := range names { // in another order
			s := p.named(names[len(names)-1-i], 2)
			e.hold(s)
		}
		all, err := listed(e.eye, e.ctx)
		e.must(err)
		var got []string
		for _, s := range all {
			got = append(got, s.Name)
			if s.Limit != 2 || s.Holders != 1 || s.InUse != 1 {
				e.t.Errorf("%+v", s)
			}
		}
		if strings.Join(got, "|") != strings.Join(names, "|") {
			e.t.Errorf("listed %q, want %q", got, names)
		}
	})
}

// What is idle is not found, and asking makes no keys.
func TestInspectorOfAnIdleSemaphore(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		_, err := e.eye.Show(e.ctx, name)
		wantErr(e.t, err, berth.ErrNotFound)
		id := strings.Repeat("x", 8) + "." + strings.Repeat("x", 18) + "-1"
		for what, err := range map[string]error{
			"resize": e.eye.Resize(e.ctx, name, 2), "unpin": e.eye.Unpin(e.ctx, name), "resume": e.eye.Resume(e.ctx, name),
			"evict": e.eye.ForceEvict(e.ctx, name, id), "purge": e.eye.Purge(e.ctx, name),
		} {
			if !errors.Is(err, berth.ErrNotFound) {
				e.t.Errorf("%s: error %v", what, err)
			}
		}
		all, err := listed(e.eye, e.ctx)
		e.must(err)
		if len(all) > 0 {
			e.t.Errorf("listed %+v", all)
		}
		e.unchanged(map[string]string{})
	})
}

func TestPauseStopsGrantsUntilResume(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		first := e.hold(p.sem(2))
		e.must(e.eye.Pause(e.ctx, name))
		_, err := p.sem(2).TryAcquire(e.ctx)
		wantErr(e.t, err, berth.ErrBusy)
		if !strings.Contains(err.Error(), "paused") {
			e.t.Errorf("told %v", err)
		}
		r := e.queue(p.sem(2))
		e.must(first.Renew(e.ctx))
		e.holds(first)
		e.release(first)
		r.waits()
		if st := e.show(); !st.Paused {
			e.t.Errorf("state %+v", st.Summary)
		}
		e.must(e.eye.Resume(e.ctx, name))
		r.granted()
		if st := e.show(); st.Paused {
			e.t.Errorf("state %+v", st.Summary)
		}
	})
}

// Pins and pauses outlast idleness: their keys carry no TTL.
func TestPinAndPauseOutlastIdleness(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		e.must(e.eye.Pin(e.ctx, name, 4))
		e.must(e.eye.Pause(e.ctx, "other"))
		e.must(e.eye.Pin(e.ctx, "gone", 3))
		e.release(e.hold(p.sem(2)))
		if e.exact {
			e.pass(48 * time.Minute)
		}
		for key := range e.keys() {
			if ttl := e.raw.TTL(e.ctx, key).Val(); ttl != -1 {
				e.t.Errorf("%s goes in %v", key, ttl)
			}
		}
		e.must(e.eye.Unpin(e.ctx, "gone"))
		all, err := listed(e.eye, e.ctx)
		e.must(err)
		if len(all) != 2 || all[0].Name != "other" || !all[0].Paused || all[1].Limit != 4 || !all[1].Pinned {
			e.t.Errorf("listed %+v", all)
		}
	})
}

// A holder is asked: it hears of it at once, and frees the permit itself.
func TestEvictNicely(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		l := e.hold(p.sem(1))
		r := e.queue(q.sem(1))
		start := time.Now()
		e.must(e.eye.Evict(e.ctx, name, l.ID()))
		lost := e.lost(l)
		wantErr(e.t, lost, berth.ErrEvicted)
		e.within(start, 0, 0, "told")
		r.waits()
		if st := e.show(); !st.Leases[0].Evicting {
			e.t.Errorf("holder %+v", st.Leases[0])
		}
		wantErr(e.t, l.Release(), berth.ErrEvicted)
		r.granted()
	})
}

// A holder that does not care is not renewed any more.
func TestEvictedHolderRunsOut(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		l := e.hold(p.sem(1, berth.TTL(e.ttl)))
		r := e.queue(q.sem(1))
		e.must(e.eye.Evict(e.ctx, name, l.ID()))
		e.lost(l)
		start := time.Now()
		r.granted()
		e.within(start, 0, e.ttl, "the permit came back")
	})
}

func TestEvictByForce(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p, q := e.peer(), e.peer()
		l := e.hold(p.sem(1))
		r := e.queue(q.sem(1))
		e.must(e.eye.ForceEvict(e.ctx, name, l.ID()))
		e.holds(r.granted())
		if lost := e.lost(l); lost.Reason != berth.LostEvicted {
			e.t.Errorf("told %q", lost.Reason)
		}
		wantErr(e.t, l.Renew(e.ctx), berth.ErrEvicted)
		wantErr(e.t, l.Release(), berth.ErrEvicted)
		wantErr(e.t, l.Release(), berth.ErrReleased)
	})
}

func TestEvictAWaiter(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		first := e.hold(p.sem(1))
		out, stays := e.queue(p.sem(1), berth.Label("out")), e.queue(p.sem(1))
		e.must(e.eye.Evict(e.ctx, name, e.show().Queue[0].ID))
		out.refused(berth.ErrEvicted)
		stays.waits()
		e.release(first)
		stays.granted()
	})
}

// The way out of whatever is stored.
func TestPurge(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		l := e.hold(p.sem(1))
		r := e.queue(p.sem(1, berth.TTL(e.ttl)))
		e.must(e.eye.Purge(e.ctx, name))
		next := r.granted() // it queues again by itself
		wantErr(e.t, l.Renew(e.ctx), berth.ErrLost)
		e.holds(next)
		wantErr(e.t, e.eye.Purge(e.ctx, "other"), berth.ErrNotFound)
	})
}

// Bad arguments of the Inspector are refused before anything is sent.
func TestInspectorRefusesBadArguments(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		in := p.Inspector()
		id := strings.Repeat("x", 8) + "." + strings.Repeat("x", 18) + "-1"
		for _, bad := range badNames() {
			_, err := in.Show(e.ctx, bad)
			for _, err := range []error{
				err, in.Resize(e.ctx, bad, 1), in.Pin(e.ctx, bad, 1), in.Unpin(e.ctx, bad), in.Pause(e.ctx, bad),
				in.Resume(e.ctx, bad), in.Evict(e.ctx, bad, id), in.Purge(e.ctx, bad),
			} {
				wantErr(e.t, err, berth.ErrInvalid)
			}
		}
		for _, bad := range []int{-1, berth.MaxLimit + 1} {
			wantErr(e.t, in.Pin(e.ctx, name, bad), berth.ErrInvalid)
			wantErr(e.t, in.Resize(e.ctx, name, bad), berth.ErrInvalid)
		}
		wantErr(e.t, in.Resize(e.ctx, name, 0), berth.ErrInvalid)
		for _, bad := range []string{"", "settings", "counts", "x", id + "\n", id + " ", "q" + id, strings.Repeat("x", 1<<20)} {
			wantErr(e.t, in.ForceEvict(e.ctx, name, bad), berth.ErrInvalid)
		}
		if n := p.net.Count(); n > 0 {
			e.t.Errorf("%d commands sent", n)
		}
	})
}

// More holders and waiters than fit in one page.
func TestInspectorPages(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		const holders, waiters = 510, 520
		p := e.peer()
		s := p.sem(holders, berth.TTL(time.Hour))
		for range holders {
			go func() { _, _ = s.Acquire(e.ctx) }()
		}
		e.until("all hold", func(s *berth.State) bool { return s.Holders == holders })
		for range waiters {
			go func() { _, _ = s.Acquire(e.ctx) }()
		}
		e.untilWaiting(waiters)
		st := e.show()
		seen := map[string]bool{}
		for i, h := range st.Leases {
			seen[h.ID] = true
			if i > 0 && st.Leases[i-1].Token >= h.Token {
				e.t.Fatal("holders are not in the order of their tokens")
			}
		}
		for _, w := range st.Queue {
			seen[w.ID] = true
		}
		if len(st.Leases) != holders || len(st.Queue) != waiters || len(seen) != holders+waiters {
			e.t.Errorf("%d holders, %d waiters, %d ids", len(st.Leases), len(st.Queue), len(seen))
		}
		e.must(p.Close())
	})
}

// Two prefixes on one Redis are two worlds, also where one begins like the other.
func TestPrefixesKeepApart(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		p := e.peer()
		other := e.peer(berth.Prefix(e.prefix + "2"))
		l := e.hold(p.sem(1))
		e.release(e.hold(other.sem(1)))
		e.must(other.Inspector().Pin(e.ctx, name, 9))
		e.holds(l)
		all, err := listed(e.eye, e.ctx)
		e.must(err)
		if len(all) != 1 || all[0].Limit != 1 {
			e.t.Errorf("listed %+v", all)
		}
		handle, err := l.Detach(context.Background())
		e.must(err)
		_, err = other.Adopt(e.ctx, handle)
		wantErr(e.t, err, berth.ErrHandle)
	})
}

// Hooks see each event once, with the request's own context.
func TestHooks(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		events := make(chan string, 100)
		note := func(ctx context.Context, format string, args ...any) {
			events <- fmt.Sprintf(format, args...) + fmt.Sprint(" ", ctx.Value(key{}))
		}
		p := e.peer(berth.Hook(berth.Hooks{
			AcquireStart: func(ctx context.Context, a berth.AcquireInfo) context.Context {
				note(ctx, "start %s %s %d/%d try=%v", a.Name, a.Label, a.Weight, a.Limit, a.Try)
				return context.WithValue(ctx, key{}, "span")
			},
			Queued: func(ctx context.Context, a berth.AcquireInfo, p berth.Place) {
				note(ctx, "queued %s ahead=%d", a.Label, p.Ahead)
			},
			AcquireDone: func(ctx context.Context, a berth.AcquireInfo, l *berth.Lease, err error) {
				note(ctx, "done %s queued=%v lease=%v err=%v", a.Label, a.Queued, l != nil, err != nil)
			},
			Released: func(l *berth.Lease, held time.Duration, err error) {
				note(e.ctx, "released %s %v err=%v", l.Label(), held >= 0, err)
			},
			Lost: func(l *berth.Lease, _ time.Duration, err error) {
				note(e.ctx, "lost %s %v", l.Label(), err != nil)
			},
		}))
		s := p.sem(1)
		a := e.hold(s, berth.Label("a"))
		_, _ = s.TryAcquire(e.ctx, berth.Label("t"))
		r := e.queue(s, berth.Label("b"))
		e.release(a)
		b := r.granted()
		e.must(e.eye.Evict(e.ctx, name, b.ID()))
		e.lost(b)
		want := []string{
			"start s a 1/1 try=false <nil>", "done a queued=false lease=true err=false span",
			"start s t 1/1 try=true <nil>", "done t queued=false lease=false err=true span",
			"start s b 1/1 try=false <nil>", "queued b ahead=0 span",
			"released a true err=<nil> <nil>", "done b queued=true lease=true err=false span", "lost b true <nil>",
		}
		var got []string
		for range want {
			got = append(got, <-events)
		}
		e.sameEvents(got, want)
	})
}

// sameEvents compares, whatever the order of what happens side by side.
func (e *env) sameEvents(got, want []string) {
	e.t.Helper()
	left := map[string]int{}
	for _, s := range want {
		left[s]++
	}
	for _, s := range got {
		left[s]--
	}
	for s, n := range left {
		if n != 0 {
			e.t.Errorf("%+d of %q; got %q", -n, s, got)
		}
	}
}
