package berthwatch

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
	"github.com/berth-go/berth/internal/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestSamplerSeesAll: numbers, one in detail, what is idle or damaged, and events.
func TestSamplerSeesAll(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		s, _ := start(e, 2, nil)
		p := e.Peer()
		held := e.Hold(p.Sem(1))
		e.Queue(p.Sem(1))
		gone := e.Hold(p.Named("gone", 1))
		e.Must(e.Redis.Set(e.Ctx, e.Prefix+":{bad}", "x", 0).Err())
		v, d := lookAt(e, s, testenv.Name, 3*time.Second)
		if v.Err != nil || !v.Found || time.Since(v.At) > time.Second || len(v.Rows) != 5 {
			t.Fatalf("view %+v", v)
		}
		row := v.Rows[4]
		if row.Name != testenv.Name || row.Holders != 1 || row.Waiting != 1 || row.OldestWait < 2*time.Second {
			t.Errorf("row %+v", row)
		}
		if !errors.Is(v.Rows[0].Err, berth.ErrCorrupt) || v.Rows[2].Limit != 5 {
			t.Errorf("rows %+v", v.Rows)
		}
		if d.State == nil || len(d.State.Leases) != 1 || len(d.State.Queue) != 1 || d.Err != nil || time.Since(d.At) > time.Second {
			t.Errorf("detail %+v, %v", d.State, d.Err)
		}
		e.Release(held, gone)
		v = lookFor(e, s, 2*time.Second)
		if !v.Rows[1].Idle || v.Rows[1].Name != "gone" {
			t.Errorf("what has gone: %+v", v.Rows[1])
		}
		if f := v.Events; !f.Listening || f.Counts[berthadmin.EventHandoff] != 1 || len(f.Last) != 1 || f.Last[0].Name != testenv.Name {
			t.Errorf("events %+v", f)
		}
		if points := s.History(testenv.Name, time.Now().Add(-4*time.Second)); len(points) < 3 || len(points) > 6 || points[0].Waiting != 1 || points[len(points)-1].Waiting != 0 {
			t.Errorf("history %+v", points)
		}
		if v = lookFor(e, s, 2*between+5*time.Second); len(v.Rows) != 4 {
			t.Errorf("after two searches: %+v", v.Rows)
		}
	})
}

// TestSamplerTakesTwoPercentAtMost of the server's time, and the search as much again,
// whatever the network takes.
func TestSamplerTakesTwoPercentAtMost(t *testing.T) {
	for name, details := range map[string][]string{"list": nil, "detail": {"n1"}, "details": {"n1", "n2", "n3", "n4", "n5"}} {
		t.Run(name, func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				t := e.T
				s, m := start(e, 150, nil)
				look := func(d time.Duration) (v View) {
					for end := time.Now().Add(d); time.Now().Before(end); e.Pass(250 * time.Millisecond) {
						v = s.Look()
						for _, name := range details {
							s.Detail(name)
						}
					}
					return v
				}
				m.sample.Store(int64(100 * time.Millisecond))
				look(10 * time.Second) // the first round has no pace yet
				before := m.spent.Load()
				const span = 4 * time.Minute
				v := look(span)
				for _, name := range details {
					if d := s.Detail(name); time.Since(d.At) > 70*time.Second {
						t.Errorf("%s is %v old", name, time.Since(d.At))
					}
				}
				if part := float64(m.spent.Load()-before) / float64(span); part > 0.0205 || part < 0.015 {
					t.Errorf("it took %.2f %%, with a pace of %v", 100*part, v.Pace)
				}
				if v.Pace < 10*time.Second {
					t.Errorf("pace %v for a cost of %v", v.Pace, v.Cost)
				}
			})
		})
	}
}

func TestSearchTakesItsTime(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		s, m := start(e, 1, nil)
		scans := func(span time.Duration) int64 {
			before := m.scans.Load()
			lookFor(e, s, span)
			return m.scans.Load() - before
		}
		// The larger the keyspace, the fewer walks, up to one in 30 seconds.
		for _, c := range []struct{ steps, least, most int64 }{{1, 78, 81}, {7, 77, 88}, {100, 400, 501}} {
			m.steps.Store(c.steps)
			lookFor(e, s, 2*between)
			if n := scans(2 * time.Minute); n < c.least || n > c.most {
				t.Errorf("%d scans in two minutes, with %d steps a walk", n, c.steps)
			}
		}
		for _, steps := range []int64{1, 5} {
			m.steps.Store(steps)
			m.scan.Store(int64(time.Second))
			lookFor(e, s, 3*time.Minute)
			before := m.spent.Load()
			const span = 10 * time.Minute
			lookFor(e, s, span)
			if part := float64(m.spent.Load()-before) / float64(span); part > 0.021 || part < 0.015 {
				t.Errorf("a slow search of %d steps took %.2f %%", steps, 100*part)
			}
		}
	})
}

// TestSamplerSleepsWhenNobodyLooks: then nothing is asked, and nobody listens.
func TestSamplerSleepsWhenNobodyLooks(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		s, m := start(e, 2, nil)
		e.Pass(time.Minute)
		if n := m.samples.Load() + m.scans.Load(); n > 0 {
			t.Errorf("%d requests before the first look", n)
		}
		lookFor(e, s, time.Minute)
		e.Pass(idle + 2*time.Second)
		before := m.samples.Load() + m.scans.Load()
		if before < 100 {
			t.Errorf("%d requests in two minutes", before)
		}
		e.Pass(30 * time.Minute)
		if n := m.samples.Load() + m.scans.Load(); n != before {
			t.Errorf("%d requests while nobody looked", n-before)
		}
		if n := e.Redis.PubSubNumPat(e.Ctx).Val(); n != 0 {
			t.Errorf("%d listen while nobody looks", n)
		}
		if v := lookFor(e, s, 2*time.Second); time.Since(v.At) > 2*time.Second || !v.Events.Listening {
			t.Errorf("it did not wake: %+v", v)
		}
	})
}

// TestSamplerOfGivenNames searches for none.
func TestSamplerOfGivenNames(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		s, m := start(e, 3, func(c *Options) { c.Names = []string{"n1", "absent"} })
		v := lookFor(e, s, time.Minute)
		if len(v.Rows) != 2 || v.Rows[0].Name != "absent" || !v.Rows[0].Idle || v.Rows[1].Limit != 5 || m.scans.Load() > 0 {
			t.Errorf("%d scans, rows %+v", m.scans.Load(), v.Rows)
		}
	})
}

// TestInvalidNamesHideNoOthers: each is a row that says so.
func TestInvalidNamesHideNoOthers(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		s, _ := start(e, 3, func(c *Options) { c.Names = []string{"n1", "a{1}", "n2", ""} })
		for range 2 {
			v := lookFor(e, s, time.Minute)
			if v.Err != nil || !v.Whole || len(v.Rows) != 4 || v.Rows[2].Limit != 5 || v.Rows[3].Limit != 5 {
				e.Fatalf("%v, rows %+v", v.Err, v.Rows)
			}
			for i, name := range []string{"", "a{1}"} {
				if r := v.Rows[i]; r.Name != name || !errors.Is(r.Err, berth.ErrInvalid) || r.States()[0] != "invalid name" {
					e.Errorf("row %+v", r)
				}
			}
		}
	})
}

// TestSamplerKeepsWhatItHasWhileRedisIsAway.
func TestSamplerKeepsWhatItHasWhileRedisIsAway(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		p := e.Peer()
		start(e, 3, nil)
		s := run(e, p.Inspector(), Options{})
		last, _ := lookAt(e, s, "n1", 5*time.Second)
		p.Net.Down()
		v, d := lookAt(e, s, "n1", 20*time.Second)
		if v.Err == nil || d.Err == nil || len(v.Rows) != 3 || v.At.Sub(last.At) > 2*time.Second || d.State == nil || v.Events.Listening {
			t.Errorf("while it is away: %+v", v)
		}
		p.Net.Up()
		if v, d = lookAt(e, s, "n1", 15*time.Second); v.Err != nil || d.Err != nil || time.Since(v.At) > 2*time.Second || !v.Events.Listening {
			t.Errorf("when it is back: %+v", v)
		}
	})
}

// TestSamplerIsBounded in the number of names.
func TestSamplerIsBounded(t *testing.T) {
	s := New(nil, Options{})
	var names []string
	for i := range mostNames + 5000 {
		names = append(names, fmt.Sprint("n", i))
	}
	if dropped := s.add(names, time.Now()); dropped != 5000 || len(s.names) != mostNames {
		t.Errorf("%d names, %d dropped", len(s.names), dropped)
	}
}

func TestOnce(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		for i := range 250 {
			e.Must(e.Inspector.Pin(e.Ctx, fmt.Sprint("n", i), 5))
		}
		v, err := New(e.Inspector.Inspector, Options{}).Once(e.Ctx)
		if err != nil || len(v.Rows) != 250 || !v.Whole {
			t.Errorf("%d rows, all of them: %v, %v", len(v.Rows), v.Whole, err)
		}
	})
}

// TestChangeOfALimitIsTold with its two values and its time, and who made it if that was an operator; and
// so is one of rates.
func TestChangeOfALimitIsTold(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Hold(p.Named("a", 5))
		s := run(e, e.Inspector.Inspector, Options{})
		want := func(text string) {
			e.Helper()
			if _, d := lookAt(e, s, "a", 15*time.Second); strings.Join(d.Why, "; ") != text {
				e.Errorf("%q, want %q", d.Why, text)
			}
		}
		want("")
		e.Hold(p.Named("a", 7))
		want("limit 5 → 7 by a program " + time.Now().Local().Format("15:04"))
		e.Pass(time.Minute)
		e.Must(e.Inspector.Because("ann", "more").Resize(e.Ctx, "a", 9))
		want("limit 7 → 9 by ann " + time.Now().Local().Format("15:04") + ": more")
		e.Pass(time.Minute)
		e.Hold(p.Named("a", berth.NoLimit))
		limit := "limit 9 → any by a program " + time.Now().Local().Format("15:04")
		want(limit)
		e.Pass(time.Minute)
		e.Hold(p.Named("a", berth.NoLimit, berth.Rate(60, time.Minute)))
		want(limit) // there was none
		e.Hold(p.Named("a", berth.NoLimit, berth.Rate(60, time.Minute), berth.Rate(1000, time.Second).Of("tokens").Burst(9)))
		want(limit + "; rate 60 in 1m0s → 60 in 1m0s, 1000 tokens in 1s and a burst of 9 by a program " + time.Now().Local().Format("15:04"))
		e.Pass(time.Minute)
		if _, _, err := e.Inspector.Because("bob", "").SetRates(e.Ctx, "a", "", berthadmin.Rate{N: 90, Per: time.Minute}); err != nil {
			e.Error(err)
		}
		rate := "; rate 60 in 1m0s → 90 in 1m0s by bob " + time.Now().Local().Format("15:04")
		want(limit + rate)
		e.Pass(time.Minute)
		if _, _, err := e.Inspector.Because("ann", "").PinRates(e.Ctx, "a", "", berthadmin.Rate{N: 10, Per: time.Minute}); err != nil {
			e.Error(err)
		}
		want("rates pinned by ann " + time.Now().Local().Format("15:04") + "; " + limit + rate)
	})
}

// TestEachUnitOfOneCommandIsTold, and what was before a purge is not.
func TestEachUnitOfOneCommandIsTold(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		e.Hold(e.Peer().Named("a", 5, berth.Rate(60, time.Minute), berth.Rate(1000, time.Hour).Of("tokens")))
		s := run(e, e.Inspector.Inspector, Options{})
		lookAt(e, s, "a", 15*time.Second)
		ann := e.Inspector.Because("ann", "less")
		e.Must(Action{Verb: "resize", Name: "a", Rates: "tokens=900/1h 50/1m"}.Do(e.Ctx, ann.Inspector))
		by := " by ann " + Clock(time.Now(), time.Now()) + ": less"
		want := []string{"rate 60 in 1m0s → 50 in 1m0s" + by, "rate 1000 tokens in 1h0m0s → 900 tokens in 1h0m0s" + by}
		if _, d := lookAt(e, s, "a", 15*time.Second); !slices.Equal(d.Why, want) {
			e.Errorf("in detail: %q, want %q", d.Why, want)
		}
		if got := ReasonsIn(e.Inspector.Audit(e.Ctx)).Resized("a"); !slices.Equal(got, want) {
			e.Errorf("by the audit alone: %q, want %q", got, want)
		}
		e.Must(ann.Purge(e.Ctx, "a"))
		if got := ReasonsIn(e.Inspector.Audit(e.Ctx)).Resized("a"); len(got) > 0 {
			e.Errorf("after a purge: %q", got)
		}
	})
}

// TestReasons: who has paused and pinned it, unless somebody did so whom the audit does
// not know.
func TestReasons(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		ann, bob := e.Inspector.Because("ann", "moving"), e.Inspector.Because("bob", "")
		e.Must(ann.Pause(e.Ctx, "a"))
		e.Must(bob.Pin(e.Ctx, "a", 3))
		e.Must(bob.Pause(e.Ctx, "b"))
		e.Must(bob.Resume(e.Ctx, "b"))
		e.Must(e.Inspector.Pause(e.Ctx, "b"))
		e.Must(ann.Pin(e.Ctx, "c", 2))
		e.Must(ann.Purge(e.Ctx, "c"))
		e.Must(e.Inspector.Pin(e.Ctx, "c", 2))
		e.Must(ann.PauseFor(e.Ctx, "d", time.Hour))
		timed := func(who string) *berthadmin.Summary {
			return &berthadmin.Summary{Name: "d", Paused: true, PausedFor: time.Minute, PausedBy: who}
		}
		r := ReasonsIn(e.Inspector.Audit(e.Ctx))
		at := Clock(time.Now(), time.Now())
		for _, c := range [][2]string{
			{r.Pause("a"), "paused by ann " + at + ": moving"},
			{r.Pin("a"), "pinned by bob " + at},
			{r.Pause("b"), "paused"},
			{r.Pin("c"), "pinned"},
			{r.Paused(timed("ann")), "paused for 1m00s by ann: moving"},
			{r.Paused(timed("a program")), "paused for 1m00s by a program"},
			{Reasons(nil).Pin("x"), "pinned"},
		} {
			if c[0] != c[1] {
				t.Errorf("%q, want %q", c[0], c[1])
			}
		}
		s, _ := start(e, 1, nil)
		if _, d := lookAt(e, s, "a", 2*time.Second); strings.Join(d.Why, "; ") != "paused by ann "+at+": moving; pinned by bob "+at {
			t.Errorf("in detail: %q", d.Why)
		}
		e.Must(bob.Resume(e.Ctx, "a"))
		e.Must(bob.Pause(e.Ctx, "a"))
		s.Refresh("a")
		s.Wait(e.Ctx, "a")
		if why := strings.Join(s.Detail("a").Why, "; "); why != "paused by bob "+at+"; pinned by bob "+at {
			t.Errorf("at once after a change: %q", why)
		}
		e.Must(ann.Resume(e.Ctx, "a"))
		e.Must(ann.Unpin(e.Ctx, "a"))
		e.Hold(e.Peer().Named("a", 1)) // it is still in use
		if _, d := lookAt(e, s, "a", 2*time.Second); d.Err != nil || len(d.Why) > 0 {
			t.Errorf("when it is neither paused nor pinned: %q, %v", d.Why, d.Err)
		}
	})
}

// TestMistypedNameMakesNoSemaphore: what is not in use is neither paused nor pinned.
func TestMistypedNameMakesNoSemaphore(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		for _, verb := range []string{"pause", "pin"} {
			a := Action{Verb: verb, Name: testenv.Name, Limit: 1}
			e.WantErr(a.DoInUse(e.Ctx, e.Inspector.Inspector), berthadmin.ErrNotFound)
			e.Unchanged(map[string]string{})
			lease := e.Hold(e.Peer().Sem(2))
			e.Must(a.DoInUse(e.Ctx, e.Inspector.Inspector))
			if st := e.Show(); !st.Paused && !st.Pinned {
				e.Errorf("after %s: %+v", verb, st.Summary)
			}
			e.Release(lease)
			e.Must(e.Inspector.Purge(e.Ctx, testenv.Name))
		}
	})
}

// TestWait: there is a picture when it returns, also after a sleep, and one of what was
// changed; and it does not wait for what will not come.
func TestWait(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		s, _ := start(e, 3, nil)
		for range 2 {
			begun := time.Now() // the sampler sleeps: what it knows by now is old
			s.Wait(e.Ctx, "n1")
			v, d := s.Look(), s.Detail("n1")
			if len(v.Rows) != 3 || v.At.Before(begun) || d.State == nil || d.At.Before(begun) {
				t.Errorf("after waiting: %+v, %+v", v, d)
			}
			e.Must(e.Inspector.Pause(e.Ctx, "n1"))
			s.Refresh("n1")
			s.Wait(e.Ctx, "n1")
			if !s.Detail("n1").State.Paused {
				t.Error("it does not see the change")
			}
			e.Must(e.Inspector.Resume(e.Ctx, "n1"))
			e.Pass(2 * idle)
		}
		s.Wait(e.Ctx, "none")
		if d := s.Detail("none"); !errors.Is(d.Err, berthadmin.ErrNotFound) {
			t.Errorf("of what is not there: %+v", d)
		}
	})
}

// TestWaitWhenRedisIsAway ends with what is known.
func TestWaitWhenRedisIsAway(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		p := e.Peer()
		p.Net.Down()
		s := run(e, p.Inspector(), Options{})
		begun := time.Now()
		s.Wait(e.Ctx, "n1")
		if v := s.Look(); v.Err == nil || time.Since(begun) > 20*time.Second {
			t.Errorf("after %v: %+v", time.Since(begun), v)
		}
		ctx, cancel := context.WithTimeout(e.Ctx, time.Second)
		defer cancel()
		begun = time.Now()
		New(p.Inspector(), Options{}).Wait(ctx, "") // nobody runs it
		if time.Since(begun) != time.Second {
			t.Errorf("it waited for %v", time.Since(begun))
		}
	})
}

// TestDetailsAreBounded in number, and in time: what nobody looks at is not read.
func TestDetailsAreBounded(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		s, m := start(e, 2, func(o *Options) { o.Names = []string{"n0"} })
		for i := range 10 * mostDetails {
			s.Detail(fmt.Sprint("n", i))
		}
		if n := len(s.details); n != mostDetails {
			t.Errorf("%d in detail", n)
		}
		e.Pass(glance + time.Second)
		before := m.samples.Load()
		e.Pass(10 * time.Second)
		if n := m.samples.Load() - before; n < 9 || n > 11 {
			t.Errorf("%d requests in ten seconds, want those for the list", n)
		}
	})
}

// TestLimitInWords: a limit that nobody has declared is none, and not the 0 that freezes.
func TestLimitInWords(t *testing.T) {
	for want, s := range map[string]berthadmin.Summary{
		"none": {}, "0": {Pinned: true}, "5": {Limit: 5, Declared: 5}, "2": {Limit: 2, Pinned: true},
		"any": {Limit: berth.NoLimit, Declared: berth.NoLimit},
	} {
		if got := Limit(&s); got != want {
			t.Errorf("%+v: %s, want %s", s, got, want)
		}
	}
}
