package protocol

import (
	"fmt"
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
	Marks    int   // tombstones, what counts for the rate, and the turns of tenants
	Slots    int   // held or free
	Last     int64 // the last token or ticket
	Next     int64 // ms: something may run out then; 0: never
	Till     int64 // ms: all deadlines have passed by then; 0: there are none, or the reply is about a compact lease
	Lapses   bool  // the keys carry a TTL, which ends at Till

	Rate  Rate
	Spent int // the costs of the grants that count for the rate

	newest bucket // what is being granted
	index  int    // its number
	epoch  int64  // of the turns of tenants that count; 0: none does
}

// bucket is a time in which grants were made.
type bucket struct {
	since int64 // ms
	sum   int
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

// The layouts of the stored data: the usual one, and one for a rate, a pause that ends, or tenants.
const (
	layout     = 1
	layoutMore = 2
)

// The form of "state". One that is newer has another number in front, or more numbers. They are
// compiled when somebody looks: no program that only acquires needs them.
var (
	stateForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[12] \d{1,12} -?\d{1,12} ([012]) \d{1,12}(?: \d{1,13}){5} \d{1,16} \d{1,16} \d{1,14} [01]` +
			`((?: \d{1,12}){3} \d{1,13} \d{1,12} \d{1,12} \d{1,16})?$`)
	})
	stateFormNewer = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:[3-9]|[1-9]\d+) |^1 \d+ -?\d+(?: \d+){12}|^2 \d+ -?\d+(?: \d+){19}`)
	})
)

// ParseState reads "state" of the general layouts at server time now (ms), as carefully as the
// script does. State.Ends is not in it. The errors are rejections with ErrVersion and ErrCorrupt.
func ParseState(text string, now int64) (State, error) {
	reject := func(why error) (State, error) {
		return State{}, &Failure{Kind: ErrRejected, Detail: why, Err: fmt.Errorf("state %.80q", text)}
	}
	if stateFormNewer().MatchString(text) {
		return reject(ErrVersion)
	}
	m := stateForm().FindStringSubmatch(text)
	if m == nil {
		return reject(ErrCorrupt)
	}
	c, pausing, more := cursor{rest: text}, m[1] == "2", m[2] != ""
	s := c.state()
	if c.bad || more != strings.HasPrefix(text, "2") || !s.sound(now) || more && !s.soundMore(pausing) || pausing && !more {
		return reject(ErrCorrupt)
	}
	return s, nil
}

// sound reports whether the numbers can be those of a semaphore.
func (s *State) sound(now int64) bool {
	const most, century = 4_000_000_000_000, 3_000_000_000_000
	return s.Slots >= s.Holders && s.Holders <= s.Used && (s.Holders > 0 || s.Used == 0) && s.Pin >= -1 &&
		int64(s.Used)+int64(s.Slots)+int64(s.Waiting)+int64(s.Limit()) <= most && (s.Slots == 0 || s.Used+s.Waiting+s.Marks > 0) &&
		s.Last < front && s.Next-now <= century
}

// soundMore reports the same of the numbers of the larger layout. pausing: the semaphore is paused for a
// time.
func (s *State) soundMore(pausing bool) bool {
	return (s.Rate.N == 0) == (s.Rate.Per == 0) && (s.newest.since == 0) == (s.newest.sum == 0) && s.newest.sum <= s.Spent &&
		(pausing || s.Rate.N > 0 || s.Spent > 0 || s.epoch > 0) && (s.Marks > 0 || s.Spent == 0 && !pausing) &&
		(s.epoch == 0 || s.Waiting > 0 && s.epoch <= s.Last)
}

// state reads the numbers of a semaphore.
func (c *cursor) state() (s State) {
	version := c.next()
	c.bad = version != layout && version != layoutMore || c.bad
	s.Declared, s.Pin, s.Paused, s.Changes = c.int(), c.int(), c.next() != 0, c.int()
	s.Used, s.Holders, s.Waiting, s.Marks, s.Slots = c.int(), c.int(), c.int(), c.int(), c.int()
	s.Last, s.Next, s.Till, s.Lapses = c.next(), c.next(), c.next(), c.next() == 1
	if version == layoutMore {
		s.Rate, s.Spent = c.rate(), c.int()
		s.newest.since, s.newest.sum, s.index, s.epoch = c.next(), c.int(), c.int(), c.next()
	}
	return s
}

func (c *cursor) rate() Rate { return Rate{N: c.int(), Per: c.duration()} }
