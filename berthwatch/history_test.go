package berthwatch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
)

// TestHistoryOfTheBusiest: a thousand have one.
func TestHistoryOfTheBusiest(t *testing.T) {
	rows := make([]Row, 2*mostHistories)
	for i := range rows {
		rows[i] = Row{Summary: berthadmin.Summary{Name: fmt.Sprint("n", i), Waiting: i}}
	}
	s := fed(5, rows, func(int, *Row) {})
	kept := 0
	for _, r := range rows {
		if points := s.History(r.Name, time.Time{}); len(points) > 0 {
			kept++
			if len(points) != 5 || r.Waiting < mostHistories {
				t.Fatalf("history of %+v: %d points", r, len(points))
			}
		}
	}
	if kept != mostHistories {
		t.Errorf("%d histories", kept)
	}
}

// fed is a sampler that has seen rows so many times, a second apart.
func fed(rounds int, rows []Row, change func(round int, r *Row)) *Sampler {
	s := New(nil, Options{Names: []string{"a"}})
	for _, r := range rows {
		s.add([]string{r.Name}, time.Unix(0, 0))
	}
	for round := range rounds {
		for i := range rows {
			change(round, &rows[i])
		}
		s.remember(rows, time.Unix(int64(round), 0))
	}
	return s
}

// TestHistoryOfAnHour: five minutes point by point, and before that the peaks of 12 seconds
// each.
func TestHistoryOfAnHour(t *testing.T) {
	const rounds = 4200
	s := fed(rounds, []Row{{Summary: berthadmin.Summary{Name: "a"}}}, func(round int, r *Row) { r.InUse, r.Limit = round%24, round })
	points := s.History("a", time.Time{})
	if len(points) < mostPoints+270 || points[0].At > (rounds-3600)*1000 || points[0].InUse%12 != 11 {
		t.Fatalf("%d points from %+v", len(points), points[0])
	}
	for i := 1; i < len(points); i++ {
		if step := points[i].At - points[i-1].At; step < 1000 || step > coarse.Milliseconds() {
			t.Fatalf("points %d ms apart", step)
		}
	}
	if last := s.History("a", time.Unix(rounds-60, 0)); len(last) != 60 || last[59].Limit != rounds-1 {
		t.Fatalf("%d points in the last minute", len(last))
	}
}

// TestHistoriesAreOfOneLook: none ends at a sample that another has not.
func TestHistoriesAreOfOneLook(t *testing.T) {
	var rows []Row
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprint("n", i))
		rows = append(rows, Row{Summary: berthadmin.Summary{Name: names[i]}})
	}
	s := fed(1, rows, func(int, *Row) {})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for round := range 500 {
			s.mu.Lock()
			s.remember(rows, time.Unix(int64(round), 0))
			s.mu.Unlock()
		}
	}()
	for more := true; more; {
		select {
		case <-done:
			more = false
		default:
		}
		all := s.Histories(names, time.Time{})
		for i, points := range all {
			if n := len(points); n != len(all[0]) || points[n-1] != all[0][n-1] {
				t.Fatalf("%s has %d points, %s has %d", names[i], n, names[0], len(all[0]))
			}
		}
	}
}

// TestDamagedLeavesAGap: its numbers are not known, and not 0.
func TestDamagedLeavesAGap(t *testing.T) {
	s := fed(6, []Row{{Summary: berthadmin.Summary{Name: "a", Limit: 3}}}, func(round int, r *Row) {
		if r.Err = nil; round > 1 && round < 5 {
			r.Err = berth.ErrCorrupt
		}
	})
	var at []int64
	for _, p := range s.History("a", time.Time{}) {
		at = append(at, p.At)
	}
	if !slices.Equal(at, []int64{0, 1000, 5000}) {
		t.Errorf("points at %v", at)
	}
}

// TestLimitChangesWhenTheServerCountsAgain: it has forgotten an idle semaphore's count, once seen by
// nobody.
func TestLimitChangesWhenTheServerCountsAgain(t *testing.T) {
	s := New(nil, Options{})
	s.add([]string{"n"}, time.Now())
	start := time.Now()
	for i, n := range []int{8, 10, 0, 0, 6, 4} {
		s.remember([]Row{{Summary: berthadmin.Summary{Name: "n", LimitChanges: n}}}, start.Add(time.Duration(i)*time.Second))
	}
	if n := s.LimitChanges("n", start); n != 12 {
		t.Errorf("%d changes, want 2, 6 and 4", n)
	}
}

// TestLimitChangesAreCountedOnceInBothRings: an interval of the wide one that goes on in the
// fine one says what came later.
func TestLimitChangesAreCountedOnceInBothRings(t *testing.T) {
	r := Row{Summary: berthadmin.Summary{Name: "a", LimitChanges: 40}}
	s := fed(0, []Row{r}, nil)
	for round := range 2 * mostPoints {
		if round == 5 { // in the middle of an interval
			r.LimitChanges++
		}
		s.remember([]Row{r}, time.Unix(int64(round), 0))
		if n := s.LimitChanges("a", time.Time{}); n > 1 {
			t.Fatalf("after %d samples, %d changes, want 1", round, n)
		}
	}
}
