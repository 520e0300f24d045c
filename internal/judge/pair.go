package judge

import (
	"cmp"
	"fmt"
	"slices"
)

// Pair is two requests that do not go together. The Second is the one that should not be.
type Pair struct{ First, Second int }

// Slots returns the beliefs that began before another one in the same slot had ended, of a smaller
// token or, without tokens, of an earlier beginning, each with that one.
func Slots(requests []Request) (pairs []Pair) {
	type belief struct {
		Span
		of int
	}
	var all []belief
	for i, r := range requests {
		for _, s := range r.Beliefs() {
			all = append(all, belief{s, i})
		}
	}
	slices.SortStableFunc(all, func(a, b belief) int {
		return cmp.Or(cmp.Compare(requests[a.of].Token, requests[b.of].Token), cmp.Compare(a.From, b.From))
	})
	last := map[int]belief{} // of each slot, the one that ends last
	for _, b := range all {
		slot := requests[b.of].Slot
		before, ok := last[slot]
		if ok && before.To > b.From {
			pairs = append(pairs, Pair{before.of, b.of})
		}
		if !ok || b.To > before.To {
			last[slot] = b
		}
	}
	return pairs
}

// Tokens returns the granted requests whose token is not above every token that was known when
// they were made, each with one of these, or is that of another request.
func Tokens(requests []Request) (pairs []Pair) {
	var byAsked []int
	for i, r := range requests {
		if r.Granted {
			byAsked = append(byAsked, i)
		}
	}
	known := slices.Clone(byAsked) // in the order in which their tokens became known
	slices.SortStableFunc(byAsked, func(a, b int) int { return cmp.Compare(requests[a].Asked, requests[b].Asked) })
	slices.SortStableFunc(known, func(a, b int) int { return cmp.Compare(requests[a].Start, requests[b].Start) })
	highest, seen := -1, map[int64]int{}
	for _, i := range byAsked {
		r := requests[i]
		for ; len(known) > 0 && requests[known[0]].Start < r.Asked; known = known[1:] {
			if highest < 0 || requests[known[0]].Token > requests[highest].Token {
				highest = known[0]
			}
		}
		twin, again := seen[r.Token]
		switch {
		case highest >= 0 && r.Token < requests[highest].Token:
			pairs = append(pairs, Pair{highest, i})
		case again:
			pairs = append(pairs, Pair{twin, i})
		}
		seen[r.Token] = i
	}
	return pairs
}

// Broken returns, in words, what is wrong with the limit, the slots and the tokens of requests.
func Broken(requests []Request, limit int) (wrong []string) {
	for _, m := range Limit(requests, limit).Moments {
		wrong = append(wrong, fmt.Sprintf("%d permits were believed in at once for %v, the limit is %d", limit+m.By, m.Length(), limit))
	}
	for _, p := range Slots(requests) {
		wrong = append(wrong, fmt.Sprintf("slot %d was believed in before its last holder ended: %+v and %+v",
			requests[p.First].Slot, requests[p.First], requests[p.Second]))
	}
	for _, p := range Tokens(requests) {
		wrong = append(wrong, fmt.Sprintf("token %d was asked for when %d had been granted: %+v and %+v",
			requests[p.Second].Token, requests[p.First].Token, requests[p.First], requests[p.Second]))
	}
	return wrong
}
