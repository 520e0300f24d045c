package berthwatch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/words"
)

// Shares says who has a semaphore's permits, and who waits, by one property of holders and waiters.
type Shares struct {
	By  string // tenant, label or host
	All []Share
}

// Share is of all holders and waiters that have the same tenant, label or host.
type Share struct {
	Name             string // "": they have none
	Permits, Waiting int    // how many they hold, and how many of them wait
}

// mostShares bounds how many of them Text names.
const mostShares = 5

// SharesOf counts the holders and waiters of a semaphore by tenant, label and host. What all of them
// have in common is left out. The largest come first.
func SharesOf(s *berthadmin.State) (all []Shares) {
	for _, by := range []string{"tenant", "label", "host"} {
		counts := map[string]*Share{}
		of := func(tenant, label, host string) *Share {
			name := map[string]string{"tenant": tenant, "label": label, "host": host}[by]
			if counts[name] == nil {
				counts[name] = &Share{Name: name}
			}
			return counts[name]
		}
		for i := range s.Leases {
			h := &s.Leases[i]
			of(h.Tenant, h.Label, h.Host).Permits += h.Weight
		}
		for i := range s.Queue {
			w := &s.Queue[i]
			of(w.Tenant, w.Label, w.Host).Waiting++
		}
		if len(counts) < 2 {
			continue
		}
		one := Shares{By: by}
		for _, share := range counts {
			one.All = append(one.All, *share)
		}
		slices.SortFunc(one.All, func(a, b Share) int {
			return cmp.Or(cmp.Compare(b.Permits, a.Permits), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Name, b.Name))
		})
		all = append(all, one)
	}
	return all
}

// Text returns the largest shares, as in "by tenant: acme 3 held, 12 waiting · beta 1 held".
func (s *Shares) Text() string {
	var parts []string
	for _, share := range s.All[:min(len(s.All), mostShares)] {
		parts = append(parts, share.text())
	}
	if others := s.All[len(parts):]; len(others) > 0 {
		sum := Share{Name: fmt.Sprintf("%d others", len(others))}
		for _, share := range others {
			sum.Permits, sum.Waiting = sum.Permits+share.Permits, sum.Waiting+share.Waiting
		}
		parts = append(parts, sum.text())
	}
	return "by " + s.By + ": " + strings.Join(parts, " · ")
}

func (s *Share) text() string {
	var numbers []string
	if s.Permits > 0 {
		numbers = append(numbers, fmt.Sprintf("%d held", s.Permits))
	}
	if s.Waiting > 0 {
		numbers = append(numbers, fmt.Sprintf("%d waiting", s.Waiting))
	}
	return words.Clean(cmp.Or(s.Name, "none")) + " " + strings.Join(numbers, ", ")
}

// MostWaiting returns the tenant, or else the label, of which most wait; "": all have the same.
func MostWaiting(s *berthadmin.State) string {
	for _, shares := range SharesOf(s) {
		most := slices.MaxFunc(shares.All, func(a, b Share) int { return cmp.Compare(a.Waiting, b.Waiting) })
		if shares.By != "host" && most.Name != "" && most.Waiting > 0 {
			return fmt.Sprintf("%s (%d)", words.Clean(most.Name), most.Waiting)
		}
	}
	return ""
}
