package protocol

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

// The layouts of the stored data: the usual one, and one for a rate, a pause that ends, or tenants.
const (
	layout     = 1
	layoutMore = 2
)

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
