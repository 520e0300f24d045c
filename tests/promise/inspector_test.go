package promise_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

func TestInspectorShowsHoldersAndWaiters(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		a := e.Hold(p.Sem(3, berth.TTL(20*time.Second)), berth.Label("a"))
		b := e.Hold(q.Sem(3), berth.Label("b"), berth.Weight(2))
		e.Queue(p.Sem(3), berth.Label("c"))
		e.Queue(q.Sem(3), berth.Label("d"), berth.Weight(3))
		e.Pass(20 * time.Millisecond)
		st, err := e.Inspector.Show(e.Ctx, testenv.Name)
		e.Must(err)
		if st.Name != testenv.Name || st.Limit != 3 || st.Declared != 3 || st.InUse != 3 || st.Holders != 2 || st.Waiting != 2 || st.Pinned || st.Paused || st.LimitChanges != 0 {
			e.Errorf("summary %+v", st.Summary)
		}
		if st.NextExpiry <= 0 || st.NextExpiry > 20*time.Second {
			e.Errorf("next expiry %v", st.NextExpiry)
		}
		if len(st.Leases) != 2 || len(st.Queue) != 2 {
			e.Fatalf("state %+v", st)
		}
		for i, want := range []*berth.Lease{a, b} {
			h := st.Leases[i]
			if h.ID != want.ID() || h.Label != want.Label() || h.Weight != want.Weight() || h.Held < 20*time.Millisecond || h.ExpiresIn <= 0 || h.Evicting {
				e.Errorf("holder %+v", h)
			}
		}
		for i, w := range st.Queue {
			if w.Ahead != i || w.Label != []string{"c", "d"}[i] || w.Weight != []int{1, 3}[i] || w.Waited < 19*time.Millisecond || w.ExpiresIn <= 0 {
				e.Errorf("waiter %+v", w)
			}
		}
	})
}

func TestInspectorListsByName(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		names := []string{"a", "a:order", "b c", `x*[a-z]\?`, "é", "日本"}
		for i := range names { // in another order
			s := p.Named(names[len(names)-1-i], 2)
			e.Hold(s)
		}
		all, err := testenv.Listed(e.Inspector.List(e.Ctx))
		e.Must(err)
		var got []string
		for _, s := range all {
			got = append(got, s.Name)
			if s.Limit != 2 || s.Holders != 1 || s.InUse != 1 {
				e.Errorf("%+v", s)
			}
		}
		if strings.Join(got, "|") != strings.Join(names, "|") {
			e.Errorf("listed %q, want %q", got, names)
		}
	})
}

// What is idle is not found, and asking makes no keys.
func TestInspectorOfAnIdleSemaphore(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		_, err := e.Inspector.Show(e.Ctx, testenv.Name)
		e.WantErr(err, berthadmin.ErrNotFound)
		id := strings.Repeat("x", 8) + "." + strings.Repeat("x", 18) + "-1"
		for what, err := range map[string]error{
			"resize": e.Inspector.Resize(e.Ctx, testenv.Name, 2), "unpin": e.Inspector.Unpin(e.Ctx, testenv.Name), "resume": e.Inspector.Resume(e.Ctx, testenv.Name),
			"evict": e.Inspector.ForceEvict(e.Ctx, testenv.Name, id), "purge": e.Inspector.Purge(e.Ctx, testenv.Name),
		} {
			if !errors.Is(err, berthadmin.ErrNotFound) {
				e.Errorf("%s: error %v", what, err)
			}
		}
		all, err := testenv.Listed(e.Inspector.List(e.Ctx))
		e.Must(err)
		if len(all) > 0 {
			e.Errorf("listed %+v", all)
		}
		e.Unchanged(map[string]string{})
	})
}

func TestPauseStopsGrantsUntilResume(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		first := e.Hold(p.Sem(2))
		e.Must(e.Inspector.Pause(e.Ctx, testenv.Name))
		err := e.Try(p.Sem(2))
		e.WantErr(err, berth.ErrBusy)
		if !strings.Contains(err.Error(), "paused") {
			e.Errorf("told %v", err)
		}
		r := e.Queue(p.Sem(2))
		e.Must(e.Renew(first))
		e.Holds(first)
		e.Release(first)
		r.Waits()
		if st := e.Show(); !st.Paused {
			e.Errorf("state %+v", st.Summary)
		}
		e.Must(e.Inspector.Resume(e.Ctx, testenv.Name))
		r.Granted()
		if st := e.Show(); st.Paused {
			e.Errorf("state %+v", st.Summary)
		}
	})
}

// Pins and pauses outlast idleness: their keys carry no TTL.
func TestPinAndPauseOutlastIdleness(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Must(e.Inspector.Pin(e.Ctx, testenv.Name, 4))
		e.Must(e.Inspector.Pause(e.Ctx, "other"))
		e.Must(e.Inspector.Pin(e.Ctx, "gone", 3))
		e.Release(e.Hold(p.Sem(2)))
		if e.Exact {
			e.Pass(48 * time.Minute)
		}
		for key := range e.Keys() {
			if ttl := e.Redis.TTL(e.Ctx, key).Val(); ttl != -1 {
				e.Errorf("%s goes in %v", key, ttl)
			}
		}
		e.Must(e.Inspector.Unpin(e.Ctx, "gone"))
		all, err := testenv.Listed(e.Inspector.List(e.Ctx))
		e.Must(err)
		if len(all) != 2 || all[0].Name != "other" || !all[0].Paused || all[1].Limit != 4 || !all[1].Pinned {
			e.Errorf("listed %+v", all)
		}
	})
}

// A holder is asked: it hears of it at once, and frees the permit itself.
func TestEvictNicely(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		l := e.Hold(p.Sem(1))
		r := e.Queue(q.Sem(1))
		start := time.Now()
		e.Must(e.Inspector.Evict(e.Ctx, testenv.Name, l.ID()))
		lost := e.Lost(l)
		e.WantErr(lost, berth.ErrEvicted)
		e.Within(start, 0, 0, "told")
		r.Waits()
		if st := e.Show(); !st.Leases[0].Evicting {
			e.Errorf("holder %+v", st.Leases[0])
		}
		e.WantErr(l.Release(), berth.ErrEvicted)
		r.Granted()
	})
}

// A holder that does not care is not renewed any more.
func TestEvictedHolderRunsOut(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		for range 20 {
			l := e.Hold(p.Sem(1, berth.TTL(e.TTL)))
			r := e.Follow(q.Sem(1))
			err := e.Inspector.Evict(e.Ctx, testenv.Name, l.ID())
			if !e.Exact && errors.Is(err, berthadmin.ErrNotFound) { // a slow machine has lost it before
				e.Release(r.Granted())
				continue
			}
			e.Must(err)
			e.Lost(l)
			start := time.Now()
			r.Granted()
			e.Within(start, 0, e.TTL, "the permit came back")
			return
		}
		e.Error("no lease lasted until it was evicted")
	})
}

func TestEvictByForce(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		l := e.Hold(p.Sem(1))
		r := e.Queue(q.Sem(1))
		e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, l.ID()))
		e.Holds(r.Granted())
		if lost := e.Lost(l); lost.Reason != berth.LostEvicted {
			e.Errorf("told %q", lost.Reason)
		}
		e.WantErr(l.Renew(e.Ctx), berth.ErrEvicted)
		e.WantErr(l.Release(), berth.ErrEvicted)
		e.WantErr(l.Release(), berth.ErrReleased)
	})
}

func TestEvictAWaiter(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		first := e.Hold(p.Sem(1))
		out, stays := e.Queue(p.Sem(1), berth.Label("out")), e.Queue(p.Sem(1))
		e.Must(e.Inspector.Evict(e.Ctx, testenv.Name, e.Show().Queue[0].ID))
		if err := out.Refused(berth.ErrEvicted); errors.Is(err, berth.ErrLost) || !strings.Contains(err.Error(), "holds nothing") {
			e.Errorf("a waiter was told that it lost a lease: %v", err)
		}
		stays.Waits()
		e.Release(first)
		stays.Granted()
	})
}

// The answer that it waits is lost: it hears of the eviction when it asks again.
func TestEvictAWaiterThatDoesNotKnowItsPlace(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		first := e.Hold(p.Sem(1))
		q.Net.Inject(redistest.Rule{Match: testenv.Carries("A"), Fault: redistest.SwallowReply})
		out := e.Start(q.Sem(1))
		e.UntilWaiting(1)
		e.Must(e.Inspector.Evict(e.Ctx, testenv.Name, e.Show().Queue[0].ID))
		out.Refused(berth.ErrEvicted)
		e.Release(first)
		e.Idle()
	})
}

// The way out of whatever is stored.
func TestPurge(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		l := e.Hold(p.Sem(1))
		r := e.Queue(p.Sem(1, berth.TTL(15*time.Second))) // asks every 5 s how it stands
		operator := e.Peer()
		attempts := 0
		err := e.Timely(func() error {
			attempts++
			return operator.Inspector().Purge(e.Ctx, testenv.Name)
		})
		if attempts == 1 || !errors.Is(err, berthadmin.ErrNotFound) { // else the attempt that took too long has done it
			e.Must(err)
		}
		if n := operator.Net.Count("DEL"); n == 0 || n > attempts {
			e.Errorf("deleted in %d steps: whoever comes in between finds half of a semaphore", n)
		}
		next := r.Granted() // it queues again by itself
		e.WantErr(l.Renew(e.Ctx), berth.ErrLost)
		e.Holds(next)
		e.WantErr(e.Inspector.Purge(e.Ctx, "other"), berthadmin.ErrNotFound)
	})
}

// The first copy has done it, and a second one would find nothing.
func TestPurgeWhoseAnswerIsLost(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		e.Hold(e.Peer().Sem(1))
		operator := e.Peer()
		lost := operator.Net.Inject(redistest.Rule{Match: redistest.Named("DEL"), Fault: redistest.SwallowReplyAndClose})
		for attempts := 0; lost.Hits() == 0; attempts++ { // a slow machine may not come to it within the 2 seconds
			if attempts > 0 && e.Exact || attempts == 20 {
				e.Fatal("nothing was deleted")
			}
			e.WantErr(operator.Inspector().Purge(e.Ctx, testenv.Name), berth.ErrUnreachable)
		}
		e.WantErr(e.Timely(func() error { return operator.Inspector().Purge(e.Ctx, testenv.Name) }), berthadmin.ErrNotFound)
	})
}

// Bad arguments of the Inspector are refused before anything is sent.
func TestInspectorRefusesBadArguments(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		in := p.Inspector()
		id := strings.Repeat("x", 8) + "." + strings.Repeat("x", 18) + "-1"
		for _, bad := range badNames() {
			_, err := in.Show(e.Ctx, bad)
			for _, err := range []error{
				err, in.Resize(e.Ctx, bad, 1), in.Pin(e.Ctx, bad, 1), in.Unpin(e.Ctx, bad), in.Pause(e.Ctx, bad),
				in.Resume(e.Ctx, bad), in.Evict(e.Ctx, bad, id), in.Purge(e.Ctx, bad),
			} {
				e.WantErr(err, berth.ErrInvalid)
			}
		}
		for _, bad := range []int{-1, berth.MaxLimit + 1} {
			e.WantErr(in.Pin(e.Ctx, testenv.Name, bad), berth.ErrInvalid)
			e.WantErr(in.Resize(e.Ctx, testenv.Name, bad), berth.ErrInvalid)
		}
		e.WantErr(in.Resize(e.Ctx, testenv.Name, 0), berth.ErrInvalid)
		for _, bad := range []string{"", "settings", "counts", "x", id + "\n", id + " ", "q" + id, strings.Repeat("x", 1<<20)} {
			e.WantErr(in.ForceEvict(e.Ctx, testenv.Name, bad), berth.ErrInvalid)
		}
		if n := p.Net.Count(); n > 0 {
			e.Errorf("%d commands sent", n)
		}
	})
}

// More holders and waiters than fit in one page.
func TestInspectorPages(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const holders, waiters = 510, 520
		p := e.Peer()
		s := p.Sem(holders, berth.TTL(time.Hour))
		for range holders {
			e.Start(s)
		}
		e.Until("all hold", func(s *berthadmin.State) bool { return s.Holders == holders })
		for range waiters {
			e.Start(s)
		}
		e.UntilWaiting(waiters)
		st := e.Show()
		seen := map[string]bool{}
		for i, h := range st.Leases {
			seen[h.ID] = true
			if i > 0 && st.Leases[i-1].Token >= h.Token {
				e.Fatal("holders are not in the order of their tokens")
			}
		}
		for _, w := range st.Queue {
			seen[w.ID] = true
		}
		if len(st.Leases) != holders || len(st.Queue) != waiters || len(seen) != holders+waiters {
			e.Errorf("%d holders, %d waiters, %d ids", len(st.Leases), len(st.Queue), len(seen))
		}
		e.Must(p.Close())
	})
}

// Two prefixes on one Redis are two worlds, also where one begins like the other.
func TestPrefixesKeepApart(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		other := e.Peer(berth.Prefix(e.Prefix + "2"))
		l := e.Hold(p.Sem(1))
		e.Release(e.Hold(other.Sem(1)))
		e.Must(e.Patient(other.Inspector()).Pin(e.Ctx, testenv.Name, 9))
		e.Holds(l)
		all, err := testenv.Listed(e.Inspector.List(e.Ctx))
		e.Must(err)
		if len(all) != 1 || all[0].Limit != 1 {
			e.Errorf("listed %+v", all)
		}
		handle, err := l.Detach(context.Background())
		e.Must(err)
		_, err = other.Adopt(e.Ctx, handle)
		e.WantErr(err, berth.ErrHandle)
	})
}

// Hooks see each event once, with the request's own context.
func TestHooks(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		events := make(chan string, 100)
		note := func(ctx context.Context, format string, args ...any) {
			events <- fmt.Sprintf(format, args...) + fmt.Sprint(" ", ctx.Value(key{}))
		}
		p := e.Peer(berth.Hook(berth.Hooks{
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
				note(e.Ctx, "released %s %v err=%v", l.Label(), held >= 0, err)
			},
			Lost: func(l *berth.Lease, _ time.Duration, err error) {
				note(e.Ctx, "lost %s %v", l.Label(), err != nil)
			},
		}))
		s := p.Sem(1)
		a := e.Hold(s, berth.Label("a"))
		_, _ = s.TryAcquire(e.Ctx, berth.Label("t"))
		r := e.Queue(s, berth.Label("b"))
		e.Release(a)
		b := r.Granted()
		e.Must(e.Inspector.Evict(e.Ctx, testenv.Name, b.ID()))
		e.Lost(b)
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
		sameEvents(e, got, want)
	})
}

// sameEvents compares, whatever the order of what happens side by side.
func sameEvents(e *testenv.Env, got, want []string) {
	e.Helper()
	left := map[string]int{}
	for _, s := range want {
		left[s]++
	}
	for _, s := range got {
		left[s]--
	}
	for s, n := range left {
		if n != 0 {
			e.Errorf("%+d of %q; got %q", -n, s, got)
		}
	}
}

// TestVerbThatWasDoneIsNotToldAsRefused: what has run out is taken out in pages, of which the
// first comes with the verb. A refusal of the next does not say that nothing was changed.
func TestVerbThatWasDoneIsNotToldAsRefused(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		const many = 600
		s := e.Peer().Sem(many+1, berth.TTL(time.Second), berth.WithoutRenewal())
		for range many {
			e.Hold(s)
		}
		e.Hold(e.Peer().Sem(many + 1))
		e.Pass(2 * time.Second)
		p := e.Peer()
		pinned := false
		p.Net.Inject(redistest.Rule{Times: -1, Fault: redistest.Reset, Match: func(c redistest.Command) bool {
			if key := e.Prefix + ":{" + testenv.Name + "}"; pinned && redistest.IsScript(c) {
				e.Must(e.Redis.Rename(e.Ctx, key, "elsewhere").Err())
				e.Must(e.Redis.Set(e.Ctx, key, "foreign", 0).Err())
				pinned = false
			}
			pinned = pinned || slices.Contains(testenv.Verbs(c), "P")
			return false
		}})
		err := p.Inspector().Pin(e.Ctx, testenv.Name, 7)
		if !errors.Is(err, berth.ErrUnreachable) || errors.Is(err, berth.ErrCorrupt) || !strings.Contains(err.Error(), "WRONGTYPE") {
			e.Errorf("%v", err)
		}
		e.Must(e.Redis.Rename(e.Ctx, "elsewhere", e.Prefix+":{"+testenv.Name+"}").Err())
		if st := e.Show(); st.Limit != 7 {
			e.Errorf("the limit is %d", st.Limit)
		}
	})
}
