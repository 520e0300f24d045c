package protocol

import (
	"cmp"
	"fmt"
	"slices"
)

// The bounds of transition.lua.
const (
	chunk  = 250
	looked = 25
	lately = 1000
	told   = 60000
)

// note is NOTE in transition.lua, a member of every sorted set, and place its score.
const (
	note  = "berth: queue < 0 <= free slots < this < deadlines (ms); over 64 bytes, so Redis keeps a skip list"
	place = 4e9
)

// model is one semaphore in plain Go, with no regard for speed: the second
// specification of the protocol, to which the script is held. It keeps nothing
// that it can count, and it finds what is due by looking at everybody.
type model struct {
	declared int
	pin      int // -1: none
	paused   bool
	changes  int
	last     int64 // the last token or ticket
	members  map[string]*member
	queue    []*member // the waiters, in order
	exists   bool      // whether keys are left

	ends int64  // ms: so long it is paused, if that ends by itself
	who  string // wants that

	turns turns            // of the lines, but for how many wait and have tenants
	lines map[string]*line // of tenants

	rates       []*meter // in force
	ratesPinned bool
}

// line are the waiters of a tenant, or were.
type line struct {
	number, began, pos, place, epoch int64
	deadline                         int64 // ms; while nobody waits
}

// member is a holder, a waiter or a tombstone.
type member struct {
	id       string
	state    state
	weight   int
	owner    string
	tenant   string
	share    int // 0: 1
	label    string
	ttl      int64 // ms, as asked for
	deadline int64 // ms
	asked    bool  // waiter: for a sign of life, and none has come since

	costs   Costs     // waiter: as it was asked for
	beat    int64     // waiter: ms, as asked for
	charges []charged // holder: what it has cost
	ticket  int64     // waiter
	maxHold int64     // waiter: ms, 0 for none
	score   int64     // waiter: the order of the queue

	slot     int   // holder
	token    int64 // holder
	ceiling  int64 // holder: ms, 0 for none; no renewal goes beyond it
	evicting bool  // holder

	reason Reason // tombstone
}

type state byte

const (
	holding state = 'h'
	waiting state = 'w'
	dead    state = 'x'
)

func newModel() *model {
	return &model{pin: -1, members: map[string]*member{}, lines: map[string]*line{}}
}

func (m *model) limit() int {
	if m.pin >= 0 {
		return m.pin
	}
	return m.declared
}

// all returns the members in a state, by id.
func (m *model) all(s state) []*member {
	var out []*member
	for _, p := range m.members {
		if p.state == s {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *member) int { return cmp.Compare(a.id, b.id) })
	return out
}

func (m *model) used() (sum int) {
	for _, p := range m.all(holding) {
		sum += p.weight
	}
	return sum
}

func (m *model) lowestFreeSlot() int {
	for slot := 0; ; slot++ {
		if !slices.ContainsFunc(m.all(holding), func(p *member) bool { return p.slot == slot }) {
			return slot
		}
	}
}

// call is one call of the script: by whom, when, and what for.
type call struct {
	owner    string
	now      int64 // server time, ms
	us       int64 // the same, µs
	notAfter int64
	next     int64 // "nearest" as it is stored, ms; 0: there is none
	ops      []Op
}

// step is one call under way.
type step struct {
	*model
	call
	was      int                 // the limit declared before
	wasRates Rates               // the rates in force before
	results  []Result            // of the operations, in their order
	vague    map[int]bool        // results whose Ahead is not specified
	notes    map[string][]string // process → lines
	before   []*member           // the queue before the operations
	fronts   []int64             // and the deadlines of those in it, ms
	weighed  int                 // the limit before them; -1 with a pause, or another rate
	wanted   Rates               // the rates that they declare
	better   bool                // the head of the queue may fit: it is time, a lease was settled, or somebody left
	thawed   bool                // a pause has just ended by itself
	more     bool
	numbers  int             // tokens and tickets given
	heard    map[string]bool // waiters that have given a sign of life
	asks     []*member       // who is asked for one
	asking   bool            // the head fits, and may be dead
}

// run executes c. A call that comes too late does nothing: ok is false.
func (m *model) run(c call) (s *step, ok bool) {
	if c.notAfter > 0 && c.now > c.notAfter {
		return nil, false
	}
	s = &step{
		model: m, call: c, was: m.declared, wasRates: m.set(), notes: map[string][]string{},
		vague: map[int]bool{}, results: make([]Result, len(c.ops)), heard: map[string]bool{},
	}
	s.before = slices.Clone(s.queue)
	for _, p := range s.before {
		s.fronts = append(s.fronts, p.deadline)
	}
	s.better = s.next > 0 && s.next <= s.now // which is when time alone lets the head in, rounded up
	if s.reap() > 0 {
		s.forget()
	}
	inside := len(s.queue) + len(s.all(holding))
	s.wanted = s.set()
	s.fade()
	if !s.thawed {
		s.weighed = s.limit()
	}
	for i := range c.ops {
		if c.ops[i].Verb != Acquire {
			s.results[i] = s.apply(i, &c.ops[i])
		}
	}
	for i := range c.ops {
		if c.ops[i].Verb == Acquire {
			s.declares(c.ops[i].Terms)
		}
	}
	s.better = s.better || len(s.queue)+len(s.all(holding)) < inside
	s.setRates(s.wanted)
	s.pump()
	for i := range c.ops {
		if c.ops[i].Verb == Acquire {
			s.results[i] = s.acquire(i, &c.ops[i])
		}
	}
	s.fade()
	s.finish()
	return s, true
}

// reap takes out everybody whose deadline has come, the earliest first, and no
// more than chunk of them in one call. It returns how many that were.
func (s *step) reap() int {
	var due []*member
	for _, p := range s.members {
		if p.deadline <= s.now {
			due = append(due, p)
		}
	}
	slices.SortFunc(due, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.deadlineScore(), b.deadlineScore()), cmp.Compare(a.id, b.id))
	})
	if len(due) >= chunk {
		rest := due[chunk:]
		due, s.more = due[:chunk:chunk], true
		for _, p := range rest { // nobody finds what has run out
			if slices.ContainsFunc(s.ops, func(op Op) bool { return op.ID == p.id || op.To == p.id }) {
				due = append(due, p)
			}
		}
	}
	for _, p := range due {
		if p.state == dead {
			delete(s.members, p.id)
			continue
		}
		s.tell(p, "x %s %d", p.id, Expired)
		s.leave(p, Expired, p.lastCopy())
	}
	before := s.reapLines()
	if s.ends > 0 && s.ends <= s.now {
		s.paused, s.ends, s.who, s.thawed, s.weighed = false, 0, "", true, -1
		before++
	}
	if until, ok := s.counting(); ok && until <= s.now {
		s.fade()
		before++
	}
	return len(due) + before
}

// lastCopy is the time until which copies of the member's acquire may come:
// Late after it was granted or queued.
func (p *member) lastCopy() int64 { return max(p.token, p.ticket)/1000 + Late.Milliseconds() }

// leave ends a lease or a place in the queue. Until the time given, a tombstone
// answers for it.
func (s *step) leave(p *member, why Reason, until int64) {
	if p.state == waiting {
		s.unline(p)
	}
	delete(s.members, p.id)
	if until > s.now {
		s.bury(p.id, why, until)
	}
}

func (s *step) bury(id string, why Reason, until int64) {
	s.members[id] = &member{id: id, state: dead, reason: why, deadline: until}
}

// tell notes a message to the process that an id names.
func (s *step) tell(p *member, format string, args ...any) {
	process := processOf(p.id)
	s.notes[process] = append(s.notes[process], fmt.Sprintf(format, args...))
}

// number is the next token or ticket.
func (s *step) number() int64 {
	s.numbers++
	s.last = max(s.last+1, s.us)
	return s.last
}

func (s *step) grant(p *member, maxHold int64) {
	p.slot = s.lowestFreeSlot()
	p.state, p.token, p.ticket = holding, s.number(), 0
	if maxHold > 0 {
		p.ceiling = s.now + maxHold
	}
}

// lease sets the deadline of a holder, which no wish moves beyond its ceiling.
func (s *step) lease(p *member, wanted int64) {
	p.deadline = wanted
	if p.ceiling > 0 {
		p.deadline = min(wanted, p.ceiling)
	}
	p.asked = false
}

// pump grants the head of the queue while it fits. Nobody behind the head is
// looked at: that is the whole of fairness. It looks at as many waiters as there
// are free permits, at all where the limit or the rate has changed or a pause has ended, and
// at no more than chunk; and where there is a rate, at few.
func (s *step) pump() {
	all := s.limit() != s.weighed
	room := s.limit() - s.used()
	if len(s.rates) > 0 {
		room = min(room, looked)
	}
	if all {
		room = len(s.queue)
	}
	room = max(min(room, len(s.queue), chunk), 0)
	if s.more || s.paused || room == 0 || s.limit() == 0 || !s.looks() {
		return
	}
	for i := 0; len(s.queue) > 0; i++ {
		head := s.head()
		_, costly := s.tooCostly(head.costs, head.weight)
		switch {
		case head.weight > s.limit(), costly: // it would block the queue for ever
			if i == room {
				s.more = s.used() < s.limit()
				return
			}
			s.tell(head, "x %s %d", head.id, TooHeavy)
			s.leave(head, TooHeavy, s.now+told)
		case s.used()+head.weight > s.limit(), !s.affords(head.costs, head.weight):
			return
		case i == room: // it is for the next call
			s.more = true
			return
		case !s.lives(head, lately):
			s.ask(room - i)
			return
		default:
			s.handOff(head)
		}
	}
}

// looks reports whether the head of the queue, which did not fit when the last call ended, may fit.
func (s *step) looks() bool { return s.better || s.limit() != s.weighed }

// lives reports whether p was heard of within so many ms. With a rate it must have been to be granted:
// else a dead one would spend of it.
func (s *step) lives(p *member, within int64) bool {
	return len(s.rates) == 0 || s.heard[p.id] || s.now-(p.deadline-p.beat) <= within
}

// ask asks the head, and those behind it that would be granted with it, for a sign of life.
func (s *step) ask(room int) {
	s.asking = true
	used := s.used()
	for _, p := range s.inTurns()[:min(room, len(s.queue))] {
		_, costly := s.tooCostly(p.costs, p.weight)
		if used += p.weight; used > s.limit() || costly || !s.affords(p.costs, p.weight) {
			break
		}
		for _, r := range s.rates {
			r.aside += p.costs.Of(r.Unit, p.weight)
		}
		if !s.lives(p, lately/2) && !p.asked { // so that it still does when the head answers
			p.asked = true
			s.asks = append(s.asks, p)
		}
	}
	for _, r := range s.rates {
		r.aside = 0
	}
}

// handOff makes a waiter a holder. Its deadline is that of its last heartbeat.
func (s *step) handOff(p *member) {
	s.goesOn(p)
	s.unline(p)
	s.grant(p, p.maxHold)
	s.charge(p, p.costs)
	asked, deadline := p.asked, p.deadline
	s.lease(p, deadline)
	p.asked = asked && p.deadline == deadline
	s.tell(p, "g %s %d %d %d", p.id, p.slot, p.token, s.limit())
}

// finish ends a call: ties in the queue are broken by id, and what is idle is deleted.
func (s *step) finish() {
	slices.SortStableFunc(s.queue, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.id, b.id))
	})
	if s.countLines() == 0 {
		s.turns = turns{}
	}
	s.exists = !s.forget()
}

// forget deletes what is idle.
func (s *step) forget() bool {
	_, counting := s.counting()
	idle := len(s.members)+len(s.lines) == 0 && !counting && s.pin < 0 && !s.ratesPinned && !s.paused
	// The last number must be remembered while the clock is not past it.
	if idle && s.last < s.us {
		*s.model = *newModel()
		return true
	}
	return false
}
