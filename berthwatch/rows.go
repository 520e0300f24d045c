package berthwatch

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/words"
)

// Orders are the ways to sort rows, the default first. Larger values come first; equal ones
// are sorted by name.
var Orders = []string{"waiting", "oldest wait", "use", "next expiry", "name"}

var orders = map[string]func(a, b *Row) int{
	"waiting": func(a, b *Row) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(use(b), use(a)), cmp.Compare(b.InUse, a.InUse))
	},
	"oldest wait": func(a, b *Row) int { return cmp.Compare(b.OldestWait, a.OldestWait) },
	"use": func(a, b *Row) int {
		return cmp.Or(cmp.Compare(use(b), use(a)), cmp.Compare(b.InUse, a.InUse))
	},
	"next expiry": func(a, b *Row) int { return cmp.Compare(soonest(a), soonest(b)) },
	"name":        func(a, b *Row) int { return cmp.Compare(a.Name, b.Name) },
}

func use(r *Row) float64 {
	if r.Limit == 0 {
		return float64(r.InUse)
	}
	return float64(r.InUse) / float64(r.Limit)
}

func soonest(r *Row) time.Duration {
	if r.NextExpiry == 0 {
		return 1 << 62
	}
	return r.NextExpiry
}

// Sort sorts rows in one of the Orders, or in its reverse.
func Sort(rows []Row, order string, reverse bool) {
	less := orders[order]
	slices.SortStableFunc(rows, func(a, b Row) int {
		d := less(&a, &b)
		if reverse {
			d = -d
		}
		return cmp.Or(d, cmp.Compare(a.Name, b.Name))
	})
}

// Match reports whether a name matches a filter, which is a part of a name or a pattern.
func Match(name, filter string) bool {
	name, filter = strings.ToLower(name), strings.ToLower(filter)
	if strings.ContainsAny(filter, "*?[") {
		ok, err := path.Match(flat.Replace(filter), flat.Replace(name))
		return ok || err != nil && strings.Contains(name, filter)
	}
	return strings.Contains(name, filter)
}

// States returns the words for what is unusual about a semaphore.
func (r *Row) States() []string {
	var corrupt *berth.CorruptError
	switch {
	case errors.As(r.Err, &corrupt) && corrupt.Newer:
		return []string{"newer layout"}
	case errors.As(r.Err, &corrupt) && corrupt.Older:
		return []string{"older layout"}
	case errors.As(r.Err, &corrupt) && corrupt.Heals > 0:
		return []string{"half lost, heals in " + words.Age(corrupt.Heals)}
	case errors.Is(r.Err, berth.ErrInvalid):
		return []string{"invalid name"}
	case r.Err != nil:
		return []string{"damaged"}
	case r.Idle:
		return []string{"idle"}
	}
	var all []string
	if r.Paused {
		all = append(all, "paused")
	}
	if r.Pinned && r.Limit == 0 {
		all = append(all, "frozen")
	} else if r.Pinned {
		all = append(all, "pinned")
	}
	if r.RatesPinned {
		all = append(all, "rates pinned")
	}
	if r.InUse > r.Limit {
		all = append(all, "over limit")
	}
	switch {
	case r.RetryAfter > 0 && !slices.ContainsFunc(r.Rates, berthadmin.Rate.Full): // by what the first in the queue costs
		all = append(all, "waits for the rate")
	case r.RetryAfter > 0:
		all = append(all, "rate spent")
	}
	if r.Expired > 0 {
		all = append(all, fmt.Sprintf("%d expired", r.Expired))
	}
	return all
}

// Blocked says in a sentence why the first in the queue waits, and who has held longest.
func Blocked(s *berthadmin.State) string {
	if len(s.Queue) == 0 {
		return "Nobody waits."
	}
	text := "The first in the queue waits for " + waitsFor(s)
	if first := Longest(s); first != nil && len(s.Leases) > 1 && !s.Paused && s.Limit > 0 && s.Limit-s.InUse < s.Queue[0].Weight {
		text += "; " + Person(first.Label, first.Host, first.PID) + " has held longest"
	}
	return text + "."
}

// waitsFor tells what the first in the queue waits for.
func waitsFor(s *berthadmin.State) string {
	w := s.Queue[0]
	free := s.Limit - s.InUse
	switch {
	case s.PausedFor > 0:
		return "the end of a pause in " + words.Age(s.PausedFor)
	case s.Paused:
		return "\"berth resume\""
	case s.Limit == 0:
		return "another limit than 0"
	case free >= w.Weight && w.KeptBy != nil:
		return "the rate: " + w.KeptBy.String() + room(&s.Summary, w.Costs[w.KeptBy.Unit])
	case free >= w.Weight:
		return "its turn, which is now"
	}
	text := words.Plural(w.Weight-max(free, 0), "permit")
	if len(s.Leases) == 1 {
		return text + " of " + Person(s.Leases[0].Label, s.Leases[0].Host, s.Leases[0].PID)
	}
	return text + " of " + words.Plural(len(s.Leases), "holder")
}

// Paused says how long a pause lasts that ends by itself, and who set it; "" if there is none.
func Paused(s *berthadmin.Summary) string {
	if s.PausedFor == 0 {
		return ""
	}
	return "paused for " + words.Age(s.PausedFor) + " by " + words.Clean(s.PausedBy)
}

// Rates says how much of each rate is spent, and how soon there is room where there is none; "" if
// there is no rate.
func Rates(s *berthadmin.Summary) string {
	var all []string
	for _, r := range s.Rates {
		all = append(all, r.String())
	}
	return strings.Join(all, ", ") + room(s, 1)
}

// room tells when the rates have room for such a cost, behind a comma; "" if they have.
func room(s *berthadmin.Summary, cost int) string {
	switch {
	case s.RetryAfter == 0:
		return ""
	case cost > 1:
		return fmt.Sprintf(", room for %d in %s", cost, words.Age(s.RetryAfter))
	}
	return ", room in " + words.Age(s.RetryAfter)
}

// Limit is the limit in force as text: "none" if no program has declared one and no operator has
// pinned one, and "any" for berth.NoLimit, which a rate alone has.
func Limit(s *berthadmin.Summary) string {
	if Undeclared(s) {
		return "none"
	}
	return words.Limit(s.Limit)
}

// ToPin is the limit from which an operator chooses another: the one in force, or what is in use if
// there is none.
func ToPin(s *berthadmin.Summary) int {
	if s.Limit == berth.NoLimit {
		return s.InUse
	}
	return s.Limit
}

// Undeclared reports whether there is no limit yet: its 0 does not freeze anything.
func Undeclared(s *berthadmin.Summary) bool { return !s.Pinned && s.Declared == 0 }

// Longest returns the holder who has held longest, or nil.
func Longest(s *berthadmin.State) (longest *berthadmin.Holder) {
	for i := range s.Leases {
		if longest == nil || s.Leases[i].Held > longest.Held {
			longest = &s.Leases[i]
		}
	}
	return longest
}

// Person describes a holder or waiter, as in "sync (web-3:4711)".
func Person(label, host string, pid int) string {
	where := words.Clean(fmt.Sprintf("%s:%d", host, pid))
	if label == "" {
		return where
	}
	return words.Clean(label) + " (" + where + ")"
}
