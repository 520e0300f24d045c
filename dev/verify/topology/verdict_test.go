package topology

import (
	"slices"
	"testing"
	"time"
)

// verdict is what the stays of the workers amount to.
type verdict struct {
	grants, lost int
	excess       time.Duration // the longest time in which more than the limit believed
	fenced       int           // holders whom a resource that keeps tokens by slot would have refused at the end
	backwards    int           // grants with a token below one of their slot that was known before they were asked for: never
	gap          time.Duration // the longest time without a grant
}

func judge(stays []stay) verdict {
	stays = slices.Clone(stays)
	slices.SortFunc(stays, func(a, b stay) int { return a.from.Compare(b.from) })
	v := verdict{grants: len(stays), excess: excess(stays)}
	for i, s := range stays {
		if s.lost {
			v.lost++
		}
		if slices.ContainsFunc(stays[:i], func(e stay) bool { return e.slot == s.slot && e.from.Before(s.asked) && e.token >= s.token }) {
			v.backwards++
		}
		if i > 0 {
			v.gap = max(v.gap, s.from.Sub(stays[i-1].from))
		}
		for _, next := range stays[i+1:] {
			if next.from.After(s.to) {
				break
			}
			if next.slot == s.slot {
				v.fenced++
				break
			}
		}
	}
	return v
}

// excess sweeps over the beginnings and ends of belief.
func excess(stays []stay) (longest time.Duration) {
	type edge struct {
		at time.Time
		by int
	}
	var edges []edge
	for _, s := range stays {
		if s.to.After(s.from) { // or nobody believed: the lease had run out when it came
			edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.by - b.by // who leaves in the moment in which another comes is no excess
	})
	believers := 0
	var since time.Time
	for _, e := range edges {
		before := believers
		believers += e.by
		switch {
		case before == limit && believers > limit:
			since = e.at
		case before > limit && believers == limit:
			longest = max(longest, e.at.Sub(since))
		}
	}
	return longest
}

// report logs v and fails for what no topology excuses; most is for how long
// the limit may have been exceeded.
func (v verdict) report(t *testing.T, most time.Duration) {
	t.Helper()
	t.Logf("%d grants, %d leases lost, limit exceeded for %v, %d stale holders for a fence to catch, longest time without a grant %v",
		v.grants, v.lost, v.excess.Round(time.Microsecond), v.fenced, v.gap.Round(time.Millisecond))
	if v.excess > most {
		t.Errorf("more than %d believed for %v, promised is %v at most", limit, v.excess, most)
	}
	if v.backwards > 0 {
		t.Errorf("%d grants had a token below one of their slot that was known before they were asked for", v.backwards)
	}
	if v.excess > 0 && v.fenced == 0 {
		t.Error("the limit was exceeded, and no fence would have noticed")
	}
}

// TestJudge: the judge finds what it is there for.
func TestJudge(t *testing.T) {
	t.Parallel()
	zero := time.Now()
	at := func(from, to, slot int, token int64) stay {
		return stay{asked: zero.Add(time.Duration(from)*time.Second - 1), from: zero.Add(time.Duration(from) * time.Second), to: zero.Add(time.Duration(to) * time.Second), slot: slot, token: token}
	}
	full := []stay{at(0, 9, 0, 1), at(0, 9, 1, 2), at(0, 9, 2, 3), at(0, 9, 3, 4)}
	for name, test := range map[string]struct {
		more []stay
		want verdict
	}{
		"full":      {nil, verdict{grants: 4}},
		"next":      {[]stay{at(9, 10, 0, 5)}, verdict{grants: 5, gap: 9 * time.Second, fenced: 1}},
		"later":     {[]stay{at(10, 11, 0, 5)}, verdict{grants: 5, gap: 10 * time.Second}},
		"one more":  {[]stay{at(7, 12, 3, 5)}, verdict{grants: 5, gap: 7 * time.Second, fenced: 1, excess: 2 * time.Second}},
		"old token": {[]stay{at(10, 12, 3, 3)}, verdict{grants: 5, gap: 10 * time.Second, backwards: 1}},
		"old token, heard of late": {
			[]stay{{asked: zero.Add(-time.Second), from: zero.Add(10 * time.Second), to: zero.Add(11 * time.Second), slot: 3, token: 3}},
			verdict{grants: 5, gap: 10 * time.Second},
		},
		"one more, before one who never believed": {
			[]stay{at(7, 12, 3, 5), {from: zero.Add(10 * time.Second), slot: 4, token: 6, lost: true}},
			verdict{grants: 6, gap: 7 * time.Second, lost: 1, fenced: 1, excess: 2 * time.Second},
		},
		"lost lease": {[]stay{{from: zero, to: zero, slot: 3, token: 9, lost: true}}, verdict{grants: 5, lost: 1, fenced: 1}},
	} {
		if got := judge(append(slices.Clone(full), test.more...)); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
