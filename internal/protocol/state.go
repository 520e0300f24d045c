package protocol

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"
)

// State are the numbers of a semaphore: "state" in transition.lua.
type State struct {
	Declared int
	Pin      int // -1: none
	Paused   bool
	Ends     int64 // ms: so long it is paused; 0: it is not, or without end
	Changes  int   // declarations that changed the limit
	Used     int   // permits in use
	Holders  int
	Waiting  int
	Others   int   // tombstones, what counts for rates, and the lines of tenants
	Slots    int   // held or free
	Last     int64 // the last token or ticket
	Next     int64 // ms: something may run out then; 0: never
	Till     int64 // ms: all deadlines have passed by then; 0: there are none, or the reply is about a compact lease
	Lapses   bool  // the keys carry a TTL, which ends at Till

	Rates       Rates // in force
	RatesPinned bool  // no declaration changes them

	tallies [MostRates]tally // of the rates, in their order
	turns   turns            // of the lines of tenants
}

// turns are where the lines of waiters stand while some of these have tenants: "Lines" in
// transition.lua.
type turns struct {
	epoch               int64 // 0: no waiter has a tenant
	clock, fresh, place int64
	plain, lines        int
	next                int
}

// Limit returns the limit in force.
func (s *State) Limit() int {
	if s.Pin >= 0 {
		return s.Pin
	}
	return s.Declared
}

// front is above all tokens and tickets: up to here the script's numbers are exact.
const front = 1 << 53

// layout is the number of what is stored.
const layout = 3

// The form of "state". One that is newer has a larger number in front, and one that is older a smaller
// one. They are compiled when somebody looks: no program that only acquires needs them.
var (
	stateForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^3 \d{1,12} -?\d{1,12} ([012]) \d{1,12}(?: \d{1,13}){5} \d{1,16} \d{1,16} \d{1,14} [01] (?:0|[1-9]\d*(?::\d{1,16}){6}) (\S+)((?: \d{1,16} [-\d:,]{1,300} \d{1,16})*)$`)
	})
	stateFormNewer = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:[4-9]|[1-9]\d+) `) })
	stateFormOlder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[12] `) })
)

// ParseState reads "state" of the general form at server time now (ms), as carefully as the script
// does. State.Ends is not in it. The errors are rejections with ErrVersion, ErrOlder and ErrCorrupt.
func ParseState(text string, now int64) (State, error) {
	reject := func(why error) (State, error) {
		return State{}, &Failure{Kind: ErrRejected, Detail: why, Err: fmt.Errorf("state %.80q", text)}
	}
	switch {
	case stateFormNewer().MatchString(text):
		return reject(ErrVersion)
	case stateFormOlder().MatchString(text):
		return reject(ErrOlder)
	}
	m := stateForm().FindStringSubmatch(text)
	if m == nil {
		return reject(ErrCorrupt)
	}
	c, pausing := cursor{rest: text}, m[1] == "2"
	s := c.state()
	if c.bad || c.rest != "" || !s.sound(now, pausing) {
		return reject(ErrCorrupt)
	}
	return s, nil
}

// sound reports whether the numbers can be those of a semaphore. pausing: it is paused for a time.
func (s *State) sound(now int64, pausing bool) bool {
	const most, century = 4_000_000_000_000, 3_000_000_000_000
	for i, r := range s.Rates.All() {
		if !s.tallies[i].sound(r, now, century) {
			return false
		}
	}
	return s.Slots >= s.Holders && s.Holders <= s.Used && (s.Holders > 0 || s.Used == 0) && s.Pin >= -1 &&
		int64(s.Used)+int64(s.Slots)+int64(s.Waiting)+int64(s.Limit()) <= most && (s.Slots == 0 || s.Used+s.Waiting+s.Others > 0) &&
		s.Last < front && s.Next-now <= century && (s.Others > 0 || !s.Counts() && !pausing) &&
		s.turns.sound(s)
}

// NoPlace is added to the score of a line to get its place.
const NoPlace = 1 << 51

// PlainPlace returns the place of the waiters without a tenant, while others have one.
func (s *State) PlainPlace() int64 { return s.turns.place }

// Step returns by how much the place of a line moves on with a grant of this weight and these costs.
func (s *State) Step(weight int, costs Costs, share int) int64 {
	const whole = 1 << 26
	size := float64(weight) / float64(max(s.Limit(), 1))
	for _, r := range s.Rates.All() {
		size = max(size, float64(costs.Of(r.Unit, weight))/float64(r.Most()))
	}
	return min(max(int64(math.Ceil(size*whole/float64(max(share, 1)))), 1), whole)
}

func (t *turns) sound(s *State) bool {
	return *t == turns{} || t.epoch > 0 && t.epoch <= s.Last && t.lines > 0 && t.lines <= s.Others && int64(t.plain)+int64(t.lines) <= int64(s.Waiting)
}

// Counts reports whether something counts for a rate, or did until a short time ago.
func (s *State) Counts() bool {
	for _, t := range s.tallies {
		if t.counts > 0 {
			return true
		}
	}
	return false
}

// state reads the numbers of a semaphore.
func (c *cursor) state() (s State) {
	c.bad = c.next() != layout || c.bad
	s.Declared, s.Pin, s.Paused, s.Changes = c.int(), c.int(), c.next() != 0, c.int()
	s.Used, s.Holders, s.Waiting, s.Others, s.Slots = c.int(), c.int(), c.int(), c.int(), c.int()
	s.Last, s.Next, s.Till, s.Lapses = c.next(), c.next(), c.next(), c.next() == 1
	s.turns = c.turns()
	c.rest, s.RatesPinned = strings.CutPrefix(c.rest, "!")
	s.Rates = c.rates()
	if s.Rates != "" {
		for i := range strings.Count(string(s.Rates), ",") + 1 {
			s.tallies[i] = c.tally()
		}
	}
	return s
}

func (c *cursor) word() string {
	word, rest, _ := strings.Cut(c.rest, " ")
	c.rest = rest
	return word
}

// tally reads what is kept of a rate.
func (c *cursor) tally() (t tally) {
	t.counts = c.next()
	if strings.ContainsAny(c.rest[:max(strings.IndexByte(c.rest, ' '), 0)], "-:") {
		t.lacks = c.word()
	} else {
		t.fades = c.next()
	}
	t.since = c.next()
	return t
}

// sound reports whether the numbers can be those of r, with ends that are not further off than most (ms).
func (t *tally) sound(r Rate, now, most int64) bool {
	if r.Burst > 0 {
		return t.lacks != "" && t.counts/1000-now <= most
	}
	return t.lacks == "" && (t.counts == 0) == (t.fades == 0) && t.fades-now <= most
}

// turns reads where the lines of tenants stand.
func (c *cursor) turns() (t turns) {
	word := c.word()
	if word == "0" {
		return t
	}
	n := cursor{rest: strings.ReplaceAll(word, ":", " ")}
	t = turns{epoch: n.next(), clock: n.next(), fresh: n.next(), place: n.next(), plain: n.int(), lines: n.int(), next: n.int()}
	c.bad = c.bad || n.bad || n.rest != ""
	return t
}

// rates reads a set of rates.
func (c *cursor) rates() Rates {
	all, ok := parseRates(c.word())
	c.bad = c.bad || !ok
	return all
}

// rate reads one.
func (c *cursor) rate() Rate {
	r, err := parseRate(c.word())
	c.bad = c.bad || err != nil
	return r
}
