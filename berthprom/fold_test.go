package berthprom

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
)

// world is semaphores that come, go and change at random.
type world struct {
	rows map[string]*berthwatch.Row
	r    *rand.Rand
}

func (w *world) step() []berthwatch.Row {
	for i := range 30 {
		name := fmt.Sprintf("%c/%d", 'a'+rune(i%3), i)
		row := w.rows[name]
		switch w.r.IntN(5) {
		case 0:
			delete(w.rows, name)
			continue
		case 1:
			continue
		}
		if row == nil || w.r.IntN(10) == 0 { // new keys: it counts from 0 again
			row = &berthwatch.Row{Summary: berthadmin.Summary{Name: name}}
		}
		row.InUse, row.Waiting, row.Limit = w.r.IntN(5), w.r.IntN(3), w.r.IntN(9)
		row.LimitChanges += w.r.IntN(3)
		row.Idle = row.InUse+row.Waiting == 0
		w.rows[name] = row
	}
	var rows []berthwatch.Row
	for _, name := range slices.Sorted(maps.Keys(w.rows)) {
		rows = append(rows, *w.rows[name])
	}
	return rows
}

// TestFoldLosesNothing: whatever comes and goes, there are as few labels as are wanted, what
// they count adds up, and no counter falls while its label is there.
func TestFoldLosesNothing(t *testing.T) {
	for seed := range uint64(50) {
		w := &world{rows: map[string]*berthwatch.Row{}, r: rand.New(rand.NewPCG(seed, 0))}
		f := fold{group: []string{"b/*"}, most: 4}
		now, before := time.Unix(0, 0), map[string]float64{}
		for range 100 {
			now = now.Add(time.Duration(w.r.IntN(int(sticky))) / 4)
			rows := w.step()
			got := f.of(rows, now)
			var wantPermits, permits, wantWaiting, waiting int
			for _, r := range rows {
				wantPermits += r.InUse
				wantWaiting += r.Waiting
			}
			for label, s := range got {
				permits += s.permits
				waiting += s.waiting
				if s.changes < before[label] {
					t.Fatalf("seed %d: the counter of %s falls from %v to %v", seed, label, before[label], s.changes)
				}
			}
			if permits != wantPermits || waiting != wantWaiting {
				t.Fatalf("seed %d: %d permits, want %d; %d waiting, want %d", seed, permits, wantPermits, waiting, wantWaiting)
			}
			if _, ok := got[others]; len(got) > 5 || len(got) == 5 && !ok {
				t.Fatalf("seed %d: labels %v", seed, slices.Collect(maps.Keys(got)))
			}
			before = map[string]float64{}
			for label, s := range got {
				before[label] = s.changes
			}
			if len(f.kept) > 4 || len(f.changes) > 5 || len(f.seen) > len(rows) {
				t.Fatalf("it remembers %d, %d, %d", len(f.kept), len(f.changes), len(f.seen))
			}
		}
	}
}

// rows makes semaphores with so many permits in use.
func rows(inUse map[string]int) (all []berthwatch.Row) {
	for name, n := range inUse {
		all = append(all, berthwatch.Row{Summary: berthadmin.Summary{Name: name, InUse: n}, Idle: n == 0})
	}
	return all
}

// TestPlacesAreKept: a name that was busy keeps its place, however busy others are, until it
// has been quiet for a quarter of an hour.
func TestPlacesAreKept(t *testing.T) {
	f := fold{most: 1}
	now := time.Unix(0, 0)
	has := func(want string, inUse map[string]int) {
		t.Helper()
		if got := f.of(rows(inUse), now); got[want] == nil || len(got) != min(2, len(inUse)) {
			t.Errorf("at %v: %v, want %s", now.Unix(), slices.Collect(maps.Keys(got)), want)
		}
	}
	has("a", map[string]int{"a": 1})
	has("a", map[string]int{"a": 1, "b": 9})
	now = now.Add(sticky - time.Second)
	has("a", map[string]int{"a": 0, "b": 9})
	now = now.Add(time.Second)
	has("b", map[string]int{"a": 0, "b": 9})
	has("b", map[string]int{"a": 20, "b": 1})
	has("a", map[string]int{"a": 20})
	has("b", map[string]int{"b": 1})
}

// TestChangesOfSumsDoNotJump when one of several semaphores goes and begins again.
func TestChangesOfSumsDoNotJump(t *testing.T) {
	f := fold{group: []string{"g/*"}, most: 5}
	look := func(want float64, changes map[string]int) {
		t.Helper()
		var all []berthwatch.Row
		for name, n := range changes {
			all = append(all, berthwatch.Row{Summary: berthadmin.Summary{Name: name, LimitChanges: n}})
		}
		if got := f.of(all, time.Unix(0, 0))["g/*"].changes; got != want {
			t.Errorf("%v of %v, want %v", got, changes, want)
		}
	}
	look(0, map[string]int{"g/1": 100, "g/2": 200})
	look(1, map[string]int{"g/1": 100, "g/2": 201})
	look(1, map[string]int{"g/1": 100})
	look(1, map[string]int{"g/1": 100, "g/2": 201})
	look(3, map[string]int{"g/1": 2, "g/2": 201})
}

// TestDeadDoNotWait: where keys have no TTL, what crashed clients left stays until somebody asks.
func TestDeadDoNotWait(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		dead := berthadmin.Summary{Name: "a", Limit: 2, InUse: 2, Holders: 1, Waiting: 3, OldestWait: time.Hour, Expired: 4, Pinned: pinned}
		f := fold{most: 5}
		got := f.of([]berthwatch.Row{{Summary: dead}}, time.Unix(0, 0))["a"]
		if got.permits != 0 || got.leases != 0 || got.waiting != 0 || got.oldestWait != 0 || got.limited != pinned || (got.limit > 0) != pinned {
			t.Errorf("pinned %v, all dead: %+v", pinned, got)
		}
		dead.Expired--
		if got := f.of([]berthwatch.Row{{Summary: dead}}, time.Unix(0, 0))["a"]; got.waiting != 3 {
			t.Errorf("one is alive: %+v", got)
		}
	}
}

// TestNoLimitIsNone: as a number it would hide all others.
func TestNoLimitIsNone(t *testing.T) {
	f := fold{group: []string{"g/*"}, most: 5}
	got := f.of([]berthwatch.Row{
		{Summary: berthadmin.Summary{Name: "a", Limit: berth.NoLimit, Declared: berth.NoLimit}},
		{Summary: berthadmin.Summary{Name: "g/any", Limit: berth.NoLimit, Declared: berth.NoLimit}},
		{Summary: berthadmin.Summary{Name: "g/five", Limit: 5, Declared: 5}},
		{Summary: berthadmin.Summary{Name: "pin", Limit: 0, Declared: berth.NoLimit, Pinned: true}},
	}, time.Unix(0, 0))
	if s := got["a"]; s.limited || s.declares {
		t.Errorf("alone: %+v", s)
	}
	if s := got["g/*"]; !s.limited || s.limit != 5 || s.declared != 5 {
		t.Errorf("beside another: %+v", s)
	}
	if s := got["pin"]; !s.limited || s.limit != 0 || s.declares {
		t.Errorf("pinned to 0: %+v", s)
	}
}

// TestHeldBackOneSaysNothingOfOthers: where several are counted together, a wait that an operator or
// a program wants is not theirs, and a pause that ends does not hide one that does not.
func TestHeldBackOneSaysNothingOfOthers(t *testing.T) {
	const minute = time.Minute
	sem := func(name string, waited, pause time.Duration, paused bool) berthwatch.Row {
		return berthwatch.Row{Summary: berthadmin.Summary{
			Name: name, Limit: 5, Declared: 5, Waiting: 1, OldestWait: waited, Paused: paused, PausedFor: pause,
		}}
	}
	rows := []berthwatch.Row{
		sem("g/ends", 45*minute, minute, true), sem("g/open", minute, 0, false), sem("g/paused", 9*minute, 0, true),
		sem("h/ends", 45*minute, minute, true), sem("x", 9*minute, 0, true), sem("y", 8*minute, minute, true),
	}
	f := fold{group: []string{"g/*", "h/*"}, most: 3}
	got := f.of(rows, time.Unix(0, 0))
	for label, want := range map[string]series{
		"g/*":  {openWait: minute, paused: true, pauseFor: minute},
		"h/*":  {paused: true, pauseFor: minute},
		others: {paused: true, endless: true, pauseFor: minute}, // beyond the bound
	} {
		s := got[label]
		if s == nil || !s.several || s.openWait != want.openWait || s.endless != want.endless || s.paused != want.paused || s.pauseFor != want.pauseFor {
			t.Errorf("%s: %+v", label, s)
		}
	}
	if s := got["g/paused"]; s == nil || s.several || !s.endless || s.oldestWait != 9*minute {
		t.Errorf("the one without an end: %+v", s)
	}
}
