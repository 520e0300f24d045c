package berthwatch

import (
	"fmt"
	"testing"
	"time"
)

// TestCostIsMeasuredAnew where it may have changed: in the beginning, now and then, when there are
// more than twice as many names, and always where it decides the pace.
func TestCostIsMeasuredAnew(t *testing.T) {
	measured := func(cost time.Duration) *usual {
		u := &usual{}
		for range u.last {
			u.add(cost, 10)
		}
		return u
	}
	for name, test := range map[string]struct {
		of    *usual
		size  int
		times int // until it is due
	}{
		"in the beginning":   {&usual{}, 1, 1},
		"now and then":       {measured(time.Millisecond), 10, seldomMeasured},
		"twice as many":      {measured(time.Millisecond), 20, seldomMeasured},
		"more than that":     {measured(time.Millisecond), 21, 1},
		"it decides":         {measured(10 * time.Millisecond), 10, 1},
		"it nearly does not": {measured(10*time.Millisecond - 1), 10, seldomMeasured},
	} {
		times := 1
		for !test.of.due(test.size, time.Second) && times < 100 {
			times++
		}
		if times != test.times {
			t.Errorf("%s: measured at reading %d, want %d", name, times, test.times)
		}
	}
}

// TestWhatIsReadNext: what a Wait may depend on comes first, then what was due first, and never
// what nobody looks at.
func TestWhatIsReadNext(t *testing.T) {
	now := time.Now()
	for range 20 { // the order of a map is any
		s := &Sampler{details: map[string]*closeUp{
			"unseen": {looked: now.Add(-glance - time.Second), next: now.Add(-time.Hour), wanted: 1},
		}}
		if name, _ := s.due(); name != "" {
			t.Fatalf("%s is read, and nobody looks at it", name)
		}
		for i := range 5 {
			s.details[fmt.Sprint("n", i)] = &closeUp{looked: now.Add(time.Hour), next: now.Add(time.Duration(5-i) * time.Minute)}
		}
		if name, at := s.due(); name != "n4" || !at.Equal(now.Add(time.Minute)) {
			t.Fatalf("%s is read at %v", name, at)
		}
		s.details["n1"].wanted = 1
		if name, at := s.due(); name != "n1" || !at.IsZero() {
			t.Fatalf("%s is read at %v", name, at)
		}
	}
}
