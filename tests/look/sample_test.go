package look_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// sampled returns what Sample yields, by name, and the errors.
func sampled(e *testenv.Env, o berthadmin.SampleOptions, names ...string) (map[string]*berthadmin.State, map[string]error) {
	e.Helper()
	states, errs := map[string]*berthadmin.State{}, map[string]error{}
	for st, err := range e.Inspector.Sample(e.Ctx, names, o) {
		states[st.Name], errs[st.Name] = st, err
	}
	return states, errs
}

// one is the sample, with records, of the semaphore that tests use.
func one(e *testenv.Env) *berthadmin.State {
	e.Helper()
	states, errs := sampled(e, berthadmin.SampleOptions{Records: true}, testenv.Name)
	e.Must(errs[testenv.Name])
	return states[testenv.Name]
}

// TestSampleIsWhatShowSays: with records a sample is Show, as long as nothing has run out.
func TestSampleIsWhatShowSays(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		e.Hold(p.Sem(3, berth.TTL(20*time.Second), berth.MaxHold(time.Hour)), berth.Label("a"))
		e.Hold(q.Sem(3), berth.Weight(2))
		e.Queue(p.Sem(3), berth.Label("c"))
		e.Queue(q.Sem(3), berth.Weight(3))
		e.Pass(20 * time.Millisecond)
		got, want := one(e), e.Show()
		if a, b := timeless(t, got), timeless(t, want); a != b {
			t.Errorf("sample %s\nshow   %s", a, b)
		}
		if first := got.Leases[0]; first.Until <= 59*time.Minute || first.Until > time.Hour || got.Leases[1].Until != 0 {
			t.Errorf("ends of MaxHold: %v, %v", first.Until, got.Leases[1].Until)
		}
		if s := got.Leases[0].Session; s == "" || s != got.Queue[0].Session || s == got.Leases[1].Session {
			t.Errorf("sessions %+v, %+v", got.Leases, got.Queue)
		}
		brief, _ := sampled(e, berthadmin.SampleOptions{}, testenv.Name)
		s := brief[testenv.Name]
		if s.OldestWait < 19*time.Millisecond || s.OldestWait > time.Minute || s.NextExpiry <= 0 || s.Expired > 0 || len(s.Leases)+len(s.Queue) > 0 {
			t.Errorf("without records: %+v", s)
		}
	})
}

// TestNextExpiryIsOfThoseWhoAreThere, and not of the tombstones of those who have gone.
func TestNextExpiryIsOfThoseWhoAreThere(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		// A handle's lease has a new id, and the old one tells for a minute where it went.
		_, err := e.Hold(p.Sem(1, berth.TTL(10*time.Minute))).Detach(e.Ctx)
		e.Must(err)
		// An evicted one tells for a minute that it was evicted.
		gone := e.Hold(p.Named("gone", 1, berth.TTL(10*time.Minute)))
		e.Must(e.Inspector.Pin(e.Ctx, "gone", 0))
		e.Must(e.Inspector.ForceEvict(e.Ctx, "gone", gone.ID()))
		for _, records := range []bool{false, true} {
			states, errs := sampled(e, berthadmin.SampleOptions{Records: records}, testenv.Name, "gone")
			e.Must(errors.Join(errs[testenv.Name], errs["gone"]))
			if next := states[testenv.Name].NextExpiry; next < 9*time.Minute || next > 10*time.Minute {
				e.Errorf("with records %v: the lease expires in %v", records, next)
			}
			if s := states["gone"]; s.Holders+s.Waiting > 0 || s.NextExpiry != 0 {
				e.Errorf("with records %v: nobody is there, and expires in %v: %+v", records, s.NextExpiry, s.Summary)
			}
		}
		var busy *berth.BusyError
		if err := e.Try(p.Named("gone", 1)); !errors.As(err, &busy) || busy.NextExpiry != 0 {
			e.Errorf("nobody is there: refused with %+v", err)
		}
	})
}

// timeless is a state as JSON, without its times.
func timeless(t *testing.T, s *berthadmin.State) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`"[a-z_]+_ms":\d+`).ReplaceAllString(string(b), "")
}

// TestSampleLeavesWhatHasRunOut: it is marked and counted, and no key changes.
func TestSampleLeavesWhatHasRunOut(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		for name, crowd := range map[string]int{"alone": 0, "crowd": 3} {
			p := e.Peer()
			limit := max(crowd-1, 1)
			for range limit {
				e.Hold(p.Named(name, limit, berth.TTL(e.TTL)))
			}
			for range crowd / 2 {
				e.Queue(p.Named(name, limit, berth.TTL(e.TTL)))
			}
			p.Crash()
			e.Pass(2*e.TTL + 15*time.Second*time.Duration(btoi(e.Exact)))
			before := e.Keys()
			brief, errs := sampled(e, berthadmin.SampleOptions{}, name)
			e.Must(errs[name])
			full, _ := sampled(e, berthadmin.SampleOptions{Records: true}, name)
			e.Unchanged(before)
			if s := full[name]; s.Holders != limit || s.InUse != limit || s.Expired < limit || !s.Leases[0].Expired || s.Leases[0].ExpiresIn != 0 {
				t.Errorf("%s: with records %+v", name, s)
			}
			if brief[name].Expired != full[name].Expired || brief[name].NextExpiry != 0 {
				t.Errorf("%s: without records %+v", name, brief[name])
			}
			if _, err := e.Inspector.Show(e.Ctx, name); crowd == 0 && !errors.Is(err, berthadmin.ErrNotFound) {
				t.Errorf("%s: show says %v", name, err)
			}
		}
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestSampleOfThoseThatAreDamaged: each is a result of its own, and hides no other.
func TestSampleOfThoseThatAreDamaged(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		key := func(name string) string { return e.Prefix + ":{" + name + "}" }
		e.Hold(e.Peer().Named("sound", 1))
		e.Must(e.Redis.Set(e.Ctx, key("foreign"), "x", 0).Err())
		e.Must(e.Redis.HSet(e.Ctx, key("newer"), "state", "4 what comes next").Err())
		for _, half := range []string{"hash lost", "set lost"} {
			p := e.Peer()
			e.Hold(p.Named(half, 1))
			e.Queue(p.Named(half, 1))
		}
		e.Must(e.Redis.Del(e.Ctx, key("hash lost"), key("set lost")+":order").Err())
		names := []string{"sound", "foreign", "nothing", "newer", "hash lost", "set lost"}
		for _, o := range []berthadmin.SampleOptions{{}, {Records: true}} {
			states, errs := sampled(e, o, names...)
			if err := errs["sound"]; err != nil || states["sound"].Holders != 1 {
				t.Errorf("sound: %+v, %v", states["sound"], err)
			}
			e.WantErr(errs["nothing"], berthadmin.ErrNotFound)
			for _, name := range []string{"foreign", "newer", "hash lost", "set lost"} {
				var corrupt *berth.CorruptError
				if err := errs[name]; !errors.As(err, &corrupt) || corrupt.Newer != (name == "newer") || (corrupt.Heals > 0) != strings.HasSuffix(name, "lost") {
					t.Errorf("%s: %+v", name, err)
				}
			}
		}
	})
}

// TestSampleOfMany: in flights, in the order that was asked for, records in pages.
func TestSampleOfMany(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		var names []string
		for i := range 250 {
			names = append(names, fmt.Sprint("n", i))
			e.Must(e.Inspector.Pin(e.Ctx, names[i], 1000+i))
		}
		for range 600 {
			e.Hold(p.Named("n7", 1))
		}
		slices.Reverse(names)
		for _, o := range []berthadmin.SampleOptions{{}, {Records: true}} {
			e.Must(e.Redis.ScriptFlush(e.Ctx).Err())
			i := 0
			for st, err := range e.Inspector.Sample(e.Ctx, names, o) {
				if err != nil || st.Name != names[i] || st.Limit != 1249-i {
					t.Fatalf("%d: %+v, %v", i, st, err)
				}
				if st.Name == "n7" && (st.Holders != 600 || o.Records != (len(st.Leases) == 600)) {
					t.Errorf("600 leases: %d, of which %d came", st.Holders, len(st.Leases))
				}
				i++
			}
			if i != len(names) {
				t.Errorf("%d of %d came", i, len(names))
			}
		}
	})
}

// TestNamesStepByStep: a walk in small steps finds all, among foreign keys.
func TestNamesStepByStep(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		want := map[string]bool{}
		for i := range 60 {
			name := fmt.Sprint("n", i)
			want[name] = true
			e.Must(e.Inspector.Pin(e.Ctx, name, 1))
			e.Must(e.Redis.Set(e.Ctx, fmt.Sprint(e.Prefix, "-foreign", i), "", time.Hour).Err())
		}
		e.Must(e.Redis.Set(e.Ctx, e.Prefix+":{\x1b[31m}", "no name of berth's", 0).Err())
		steps := 0
		for cursor := ""; cursor != "" || steps == 0; steps++ {
			names, next, err := e.Inspector.Names(e.Ctx, cursor, 10)
			e.Must(err)
			for _, name := range names {
				if strings.HasPrefix(name, "\x1b") {
					t.Errorf("%q is no name", name)
				}
				delete(want, name)
			}
			cursor = next
		}
		if len(want) > 0 || !e.Exact && steps < 5 {
			t.Errorf("%d steps, and not found were %v", steps, want)
		}
		for _, bad := range []func() error{
			func() error { _, _, err := e.Inspector.Names(e.Ctx, "x", 10); return err },
			func() error { _, _, err := e.Inspector.Names(e.Ctx, "", 0); return err },
			func() error { return firstError(e.Inspector.Inspector, "a}b") },
		} {
			e.WantErr(bad(), berth.ErrInvalid)
		}
	})
}

func firstError(in *berthadmin.Inspector, names ...string) error {
	for _, err := range in.Sample(context.Background(), names, berthadmin.SampleOptions{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestIdleKeepsItsLimitChanges for as long as the server remembers them: whoever adds up their
// growth must not take those before an idle moment for new.
func TestIdleKeepsItsLimitChanges(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		first, second := e.Hold(p.Sem(2)), e.Hold(p.Sem(3))
		look := func(want error) {
			e.Helper()
			for st, err := range e.Inspector.Sample(e.Ctx, []string{testenv.Name}, berthadmin.SampleOptions{}) {
				if !errors.Is(err, want) || st.LimitChanges != 1 {
					e.Errorf("%d changes, %v", st.LimitChanges, err)
				}
			}
		}
		look(nil)
		handle, err := second.Detach(e.Ctx) // what has moved is remembered
		e.Must(err)
		e.Must(p.ReleaseHandle(e.Ctx, handle))
		e.Release(first)
		look(berthadmin.ErrNotFound)
		e.Hold(p.Sem(3))
		look(nil)
	})
}
