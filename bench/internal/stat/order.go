package stat

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Belief is what one client remembers of one permit: when it asked, and from
// when until when it believed to have it. Times are from one monotonic clock.
type Belief struct{ Asked, Start, End time.Duration }

// MostHeld returns how many believed to hold a permit at the same moment, at
// most. A belief that begins where another ends does not meet it.
func MostHeld(beliefs []Belief) int {
	type edge struct {
		at     time.Duration
		change int
	}
	edges := make([]edge, 0, 2*len(beliefs))
	for _, b := range beliefs {
		if b.End > b.Start {
			edges = append(edges, edge{b.Start, +1}, edge{b.End, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.change, b.change))
	})
	held, most := 0, 0
	for _, e := range edges {
		held += e.change
		most = max(most, held)
	}
	return most
}

// Overtaken counts the permits that at least one later request overtook: it was
// made more than slack later and got its permit more than slack earlier. slack
// is the time within which nobody can say who was first, because requests and
// answers were under way.
func Overtaken(beliefs []Belief, slack time.Duration) (n int) {
	byAsked := slices.SortedFunc(slices.Values(beliefs), func(a, b Belief) int { return cmp.Compare(a.Asked, b.Asked) })
	// earliest[i] is the first start among those that asked at i or later.
	earliest := make([]time.Duration, len(byAsked))
	for i := len(byAsked) - 1; i >= 0; i-- {
		earliest[i] = byAsked[i].Start
		if i+1 < len(byAsked) {
			earliest[i] = min(earliest[i], earliest[i+1])
		}
	}
	for _, b := range byAsked {
		later := sort.Search(len(byAsked), func(i int) bool { return byAsked[i].Asked > b.Asked+slack })
		if later < len(byAsked) && earliest[later] < b.Start-slack {
			n++
		}
	}
	return n
}
