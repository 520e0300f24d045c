package berthprom

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
)

const (
	// others is the name under which those beyond the bound are counted.
	others = "_other"
	// sticky is how long an idle name keeps metrics of its own.
	sticky = 15 * time.Minute
)

// series holds the values of one label's metrics: of one semaphore, or of several.
type series struct {
	several                                   bool // it is of semaphores that are counted together
	limited, declares                         bool // there is a limit in force, and one that programs have declared
	limit, declared, permits, leases, waiting int
	oldestWait, openWait                      time.Duration // of all, and of those that are neither paused nor frozen
	oldest, ceiling                           time.Time
	paused, pinned                            bool
	endless                                   bool          // one of the pauses does not end by itself
	pauseFor                                  time.Duration // until the last of the others ends; 0: there is none
	rates                                     []rateSeries
	changes                                   float64
}

// busy tells how busy it is, for comparison.
func (s *series) busy() int {
	n := 2*s.waiting + s.permits
	if s.paused || s.pinned {
		n++
	}
	return n
}

// merge adds the counts of o, and keeps the worse of values that cannot be added.
func (s *series) merge(o *series) {
	s.several = s.several || o.several
	s.limited, s.declares = s.limited || o.limited, s.declares || o.declares
	s.limit += o.limit
	s.declared += o.declared
	s.permits += o.permits
	s.leases += o.leases
	s.waiting += o.waiting
	s.oldestWait, s.openWait = max(s.oldestWait, o.oldestWait), max(s.openWait, o.openWait)
	s.oldest, s.ceiling = earlier(s.oldest, o.oldest), earlier(s.ceiling, o.ceiling)
	s.paused, s.pinned = s.paused || o.paused, s.pinned || o.pinned
	s.endless, s.pauseFor = s.endless || o.endless, max(s.pauseFor, o.pauseFor)
	for _, r := range o.rates {
		s.addRate(r)
	}
	s.changes += o.changes
}

// rateSeries holds the values of a rate: a semaphore may have several.
type rateSeries struct {
	unit        string
	window      time.Duration
	most, spent int // most: the rate, or its burst
}

func ratesOf(all []berthadmin.Rate) (found []rateSeries) {
	for _, r := range all {
		found = append(found, rateSeries{r.Unit, r.Per, cmp.Or(r.Burst, r.N), r.Spent})
	}
	return found
}

// addRate adds the values of a rate to those of the same unit and window.
func (s *series) addRate(r rateSeries) {
	for i := range s.rates {
		if is := &s.rates[i]; is.unit == r.unit && is.window == r.window {
			is.most, is.spent = is.most+r.most, is.spent+r.spent
			return
		}
	}
	s.rates = append(s.rates, r)
}

// earlier returns the first of two moments, of which one may be unknown.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// fold turns semaphores into a bounded number of series.
type fold struct {
	group berthwatch.Groups
	most  int

	kept    map[string]time.Time // labels with a series of their own: when something last went on there
	seen    map[string]int       // changes of the limit of each semaphore, at the last look
	changes map[string]float64   // what was added of these, for each label
}

// of returns the series of what was sampled, by label.
func (f *fold) of(rows []berthwatch.Row, now time.Time) map[string]*series {
	found, seen := map[string]*series{}, map[string]int{}
	for _, r := range rows {
		if r.Err != nil {
			continue // it is counted in berth_semaphores
		}
		seen[r.Name] = r.LimitChanges
		changes := f.changed(r.Name, r.LimitChanges)
		if r.Expired > 0 && r.Expired == r.Holders+r.Waiting {
			r = buried(r)
		}
		label, closed := f.label(&r), r.Paused || r.Limit == 0
		s := &series{
			several: label != r.Name, permits: r.InUse, leases: r.Holders, waiting: r.Waiting,
			oldestWait: r.OldestWait, oldest: r.Oldest, ceiling: r.Ceiling, paused: r.Paused, pinned: r.Pinned || r.RatesPinned, pauseFor: r.PausedFor,
			endless: r.Paused && r.PausedFor == 0, changes: changes,
			rates: ratesOf(r.Rates),
		}
		// berth.NoLimit is none, beside which no other could be seen.
		if s.limited = !r.Idle && !berthwatch.Undeclared(&r.Summary) && r.Limit != berth.NoLimit; s.limited {
			s.limit = r.Limit
		}
		if s.declares = !r.Idle && r.Declared > 0 && r.Declared != berth.NoLimit; s.declares {
			s.declared = r.Declared
		}
		// berth.NoLimit is none, beside which no other could be seen.
		if s.limited = !r.Idle && !berthwatch.Undeclared(&r.Summary) && r.Limit != berth.NoLimit; s.limited {
			s.limit = r.Limit
		}
		if s.declares = !r.Idle && r.Declared > 0 && r.Declared != berth.NoLimit; s.declares {
			s.declared = r.Declared
		}
		if !closed {
			s.openWait = r.OldestWait
		}
		into(found, label).merge(s)
	}
	f.seen = seen
	all := f.bounded(found, now)
	changes := map[string]float64{}
	for label, s := range all {
		s.changes += f.changes[label]
		changes[label] = s.changes
	}
	f.changes = changes
	return all
}

// label is under which name a semaphore is counted. One that an operator has set something for, until
// somebody takes it back, has its own: among others nobody would see it.
func (f *fold) label(r *berthwatch.Row) string {
	if r.Pinned || r.RatesPinned || r.Paused && r.PausedFor == 0 {
		return r.Name
	}
	return f.group.Of(r.Name)
}

// buried returns the row of a semaphore with nobody but the dead, as it will be after the next
// request, which removes them. There may be none for long.
func buried(r berthwatch.Row) berthwatch.Row {
	b := berthwatch.Row{Summary: berthadmin.Summary{Name: r.Name}, Idle: !r.Paused && !r.Pinned && !r.RatesPinned && !spends(r.Rates)}
	if !b.Idle {
		b.Rates, b.RatesPinned = r.Rates, r.RatesPinned
		b.Limit, b.Declared, b.Paused, b.Pinned, b.PausedFor = r.Limit, r.Declared, r.Paused, r.Pinned, r.PausedFor
	}
	return b
}

// spends reports whether something is spent of a rate.
func spends(all []berthadmin.Rate) bool {
	return slices.ContainsFunc(all, func(r berthadmin.Rate) bool { return r.Spent > 0 })
}

// changed returns by how much a count has grown. A semaphore's count begins again when its
// keys are gone. A sum must not fall then, because Prometheus would take all of it for new;
// so the growth is added up here.
func (f *fold) changed(name string, n int) float64 {
	before, known := f.seen[name]
	switch {
	case !known:
		return 0 // before the exporter looked
	case n < before:
		return float64(n)
	}
	return float64(n - before)
}

// bounded counts the series beyond the bound together.
func (f *fold) bounded(found map[string]*series, now time.Time) map[string]*series {
	rank := func(label string) int {
		if at, ok := f.kept[label]; ok && now.Sub(at) < sticky {
			return 0
		}
		return 1
	}
	labels := slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(found[b].busy(), found[a].busy()), cmp.Compare(a, b))
	})
	all, kept := map[string]*series{}, map[string]time.Time{}
	for _, label := range labels {
		s := found[label]
		if len(kept) >= f.most {
			s.several = true
			into(all, others).merge(s)
			continue
		}
		all[label] = s
		if kept[label] = f.kept[label]; s.busy() > 0 {
			kept[label] = now
		}
	}
	f.kept = kept
	return all
}

// into returns the series of a label, and makes it if it is new.
func into(all map[string]*series, label string) *series {
	if all[label] == nil {
		all[label] = &series{}
	}
	return all[label]
}
