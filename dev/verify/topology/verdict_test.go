package topology

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/judge"
)

// verdict is what the stays of the workers amount to.
type verdict struct {
	grants, lost int
	excess       time.Duration // the longest time in which more than the limit believed
	fenced       int           // holders whom a resource that keeps tokens by slot would have refused at the end
	backwards    int           // grants with a token below one of their slot that was known before they were asked for: never
	gap          time.Duration // the longest time without a grant
}

func verdictOf(stays []stay) verdict {
	stays = slices.Clone(stays)
	slices.SortFunc(stays, func(a, b stay) int { return cmp.Compare(a.Start, b.Start) })
	v, all, bySlot := verdict{grants: len(stays)}, []judge.Request{}, map[int][]judge.Request{}
	for i, s := range stays {
		all = append(all, s.Request)
		bySlot[s.Slot] = append(bySlot[s.Slot], s.Request)
		if s.lost {
			v.lost++
		}
		if i > 0 {
			v.gap = max(v.gap, s.Start-stays[i-1].Start)
		}
		for _, next := range stays[i+1:] {
			if next.Start > s.End {
				break
			}
			if next.Slot == s.Slot {
				v.fenced++
				break
			}
		}
	}
	for _, m := range judge.Limit(all, limit).Moments {
		v.excess = max(v.excess, m.Length())
	}
	for _, requests := range bySlot {
		v.backwards += len(judge.Tokens(requests))
	}
	return v
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

// TestVerdict: it tells what it is there for.
func TestVerdict(t *testing.T) {
	t.Parallel()
	at := func(from, to, slot int, token int64) stay {
		start, end := time.Duration(from)*time.Second, time.Duration(to)*time.Second
		return stay{Request: judge.Request{Granted: true, Asked: start - 1, Start: start, End: end, Slot: slot, Token: token}}
	}
	lost := func(s stay) stay { s.End, s.lost = s.Start, true; return s }
	late := func(s stay) stay { s.Asked = -time.Second; return s }
	full := []stay{at(0, 9, 0, 1), at(0, 9, 1, 2), at(0, 9, 2, 3), at(0, 9, 3, 4)}
	for name, test := range map[string]struct {
		more []stay
		want verdict
	}{
		"full":                     {nil, verdict{grants: 4}},
		"next":                     {[]stay{at(9, 10, 0, 5)}, verdict{grants: 5, gap: 9 * time.Second, fenced: 1}},
		"later":                    {[]stay{at(10, 11, 0, 5)}, verdict{grants: 5, gap: 10 * time.Second}},
		"one more":                 {[]stay{at(7, 12, 3, 5)}, verdict{grants: 5, gap: 7 * time.Second, fenced: 1, excess: 2 * time.Second}},
		"old token":                {[]stay{at(10, 12, 3, 3)}, verdict{grants: 5, gap: 10 * time.Second, backwards: 1}},
		"old token, heard of late": {[]stay{late(at(10, 11, 3, 3))}, verdict{grants: 5, gap: 10 * time.Second}},
		"one more, before one who never believed": {
			[]stay{at(7, 12, 3, 5), lost(at(10, 12, 4, 6))},
			verdict{grants: 6, gap: 7 * time.Second, lost: 1, fenced: 1, excess: 2 * time.Second},
		},
		"lost lease": {[]stay{lost(at(0, 9, 3, 9))}, verdict{grants: 5, lost: 1, fenced: 1}},
	} {
		if got := verdictOf(append(slices.Clone(full), test.more...)); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
