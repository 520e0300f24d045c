package gate

import (
	"strconv"
	"testing"
)

// TestRoomWithoutTenants: as many wait as there is room for, a tenth as many may try beyond that, and
// the others are refused.
func TestRoomWithoutTenants(t *testing.T) {
	for most, tries := range map[int]int{1: 1, 10: 1, 11: 2, 1000: 100} {
		m := &room{most: most}
		for range 2 {
			var inside []entry
			count := map[entry]int{}
			for range 2 * most {
				e := m.enter("")
				if count[e]++; e != turnedAway {
					inside = append(inside, e)
				}
			}
			if count[mayWait] != most || count[mayTry] != tries || count[turnedAway] != most-tries {
				t.Errorf("room for %d gave %v", most, count)
			}
			for _, e := range inside {
				m.leave("", e)
			}
		}
		if len(m.waiting) != 0 || m.trying != 0 {
			t.Errorf("what is left of %d: %v, %d", most, m.waiting, m.trying)
		}
	}
	m := new(room)
	for range 5000 {
		if m.enter("") != mayWait {
			t.Fatal("a room without a bound is full")
		}
	}
}

// TestRoomOfManyTenants: however many come, and in whatever order, at most twice as many wait.
func TestRoomOfManyTenants(t *testing.T) {
	m := &room{most: 100}
	let := 0
	for tenant := range 100 {
		for m.enter(strconv.Itoa(tenant)) == mayWait {
			let++
		}
	}
	if let != 200 {
		t.Errorf("%d wait, want 200", let)
	}
}
