package berthweb

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/internal/words"
)

// mostDrawn is of how many semaphores the chart of a group is made.
const mostDrawn = 200

// group is some semaphores that are one row of the list.
type group struct {
	berthwatch.Row // Name is their pattern; numbers are added up, and times are the worst
	members        []berthwatch.Row
}

// grouping returns under which name each semaphore is shown, and whether that puts some together:
// by the patterns of Options.Group, or without any by what is before their keys.
func (s *site) grouping(rows []berthwatch.Row) (of func(name string) string, some bool) {
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].Name
	}
	if of = berthwatch.Groups(s.Group).Of; len(s.Group) == 0 {
		of = berthwatch.ByPrefix(names)
	}
	return of, slices.ContainsFunc(names, func(name string) bool { return of(name) != name })
}

// grouped puts rows together. A row alone stays what it is.
func grouped(rows []berthwatch.Row, of func(name string) string) (left []berthwatch.Row, groups map[string]*group) {
	groups = map[string]*group{}
	for _, r := range rows {
		pattern := of(r.Name)
		if groups[pattern] == nil {
			groups[pattern] = &group{}
		}
		groups[pattern].add(r, pattern)
	}
	for pattern, g := range groups {
		if len(g.members) == 1 {
			left = append(left, g.members[0])
			delete(groups, pattern)
		} else {
			left = append(left, g.Row)
		}
	}
	return left, groups
}

func (g *group) add(r berthwatch.Row, pattern string) {
	if len(g.members) == 0 {
		g.Idle = true
	}
	g.members = append(g.members, r)
	g.Name = pattern
	g.Idle = g.Idle && r.Idle
	g.InUse, g.Holders, g.Waiting, g.Declared = g.InUse+r.InUse, g.Holders+r.Holders, g.Waiting+r.Waiting, g.Declared+r.Declared
	g.Limit = min(g.Limit+r.Limit, berth.NoLimit)
	g.Paused, g.Pinned, g.RatesPinned = g.Paused || r.Paused, g.Pinned || r.Pinned, g.RatesPinned || r.RatesPinned
	g.OldestWait = max(g.OldestWait, r.OldestWait)
	if r.NextExpiry > 0 && (g.NextExpiry == 0 || r.NextExpiry < g.NextExpiry) {
		g.NextExpiry = r.NextExpiry
	}
}

// states are those of its semaphores, with how many each has.
func (g *group) states() (all []string) {
	counts := map[string]int{}
	for i := range g.members {
		for _, state := range g.members[i].States() {
			counts[kind(state)]++
		}
	}
	delete(counts, "idle")
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%d %s", counts[state], state))
	}
	return all
}

// who tells how many they are, and where most wait.
func (g *group) who() string {
	text := words.Plural(len(g.members), "semaphore")
	most := slices.MaxFunc(g.members, func(a, b berthwatch.Row) int { return cmp.Compare(a.Waiting, b.Waiting) })
	if most.Waiting > 0 {
		text += fmt.Sprintf(", %d waiting for %s", most.Waiting, most.Name)
	}
	return text
}

// history adds the points of its semaphores up. A moment at which only few of them were sampled, as
// when some are new, is left out.
func (g *group) history(s *berthwatch.Sampler, since time.Time) (sums []berthwatch.Point) {
	var names []string
	for _, r := range g.members[:min(len(g.members), mostDrawn)] {
		names = append(names, r.Name)
	}
	at, of, most := map[int64]berthwatch.Point{}, map[int64]int{}, 0
	for _, points := range s.Histories(names, since) { // of one moment, or the last would be of some of them
		for _, p := range points {
			sum := at[p.At]
			at[p.At] = berthwatch.Point{At: p.At, InUse: sum.InUse + p.InUse, Waiting: sum.Waiting + p.Waiting, Limit: sum.Limit + p.Drawn()}
			of[p.At]++
			most = max(most, of[p.At])
		}
	}
	for _, moment := range slices.Sorted(maps.Keys(at)) {
		if 2*of[moment] >= most {
			sums = append(sums, at[moment])
		}
	}
	return sums
}
