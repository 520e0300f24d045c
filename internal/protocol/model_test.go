package protocol

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// The bounds of transition.lua.
const (
	chunk  = 250
	looked = 25
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

	turns map[string]*turn // of tenants
	epoch int64            // of the turns that count; 0: none does

	rate   Rate
	index  int        // how many counts there were since nothing counted
	counts []*counted // what was granted, and has not left the window; the oldest first
}

// turn is where the next waiter of a tenant stands.
type turn struct {
	next     int64 // µs
	epoch    int64
	deadline int64 // ms
}

// counted is what grants of a time that begins at since cost in sum. It counts until the last
// of them has left the window.
type counted struct {
	index int   // its number
	since int64 // ms
	sum   int
	until int64 // ms
}

// member is a holder, a waiter or a tombstone.
type member struct {
	id       string
	state    state
	weight   int
	owner    string
	tenant   string
	label    string
	ttl      int64 // ms, as asked for
	deadline int64 // ms

	cost    int   // waiter: of the rate; 0: its weight
	ticket  int64 // waiter
	maxHold int64 // waiter: ms, 0 for none
	score   int64 // waiter: the order of the queue

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

// spent is what counts for the rate.
func (m *model) spent() (sum int) {
	for _, c := range m.counts {
		sum += c.sum
	}
	return sum
}

// affords reports whether the rate lets in what costs so much.
func (m *model) affords(cost int) bool { return m.rate.N == 0 || m.spent()+cost <= m.rate.N }

// charge counts a grant. What is granted within a hundredth of the window is kept together, and
// leaves it with the last.
func (s *step) charge(cost int) {
	if s.rate.N == 0 {
		return
	}
	window := s.rate.Per.Milliseconds()
	last := len(s.counts) - 1
	if last < 0 || s.now < s.counts[last].since || 100*(s.now-s.counts[last].since) >= window {
		s.index++
		s.counts = append(s.counts, &counted{index: s.index, since: s.now})
		last++
	}
	s.counts[last].sum += cost
	s.counts[last].until = s.now + window + 1 // a millisecond for what the clock is beyond s.now
}

// rest is how long the rate alone keeps out what costs so much.
func (s *step) rest(cost int) time.Duration {
	if s.affords(cost) {
		return 0
	}
	over, until := s.spent()+cost-s.rate.N, int64(0)
	for _, c := range s.counts {
		if over > 0 {
			over, until = over-c.sum, c.until
		}
	}
	return milliseconds(until - s.now)
}

// setRate changes the rate. What was granted counts for as long as it did before, but for no
// longer than one new window from now on. What would is one count then.
func (s *step) setRate(rate Rate) {
	if rate == s.rate {
		return
	}
	if s.rate.N > 0 {
		s.changes++
	}
	s.rate, s.weighed = rate, -1
	if rate.N == 0 {
		return
	}
	until := s.now + rate.Per.Milliseconds() + 1
	var longer *counted
	for _, c := range slices.Clone(s.counts) {
		if c.until <= until {
			continue
		}
		if longer != nil {
			c.sum += longer.sum
			s.counts = slices.DeleteFunc(s.counts, func(n *counted) bool { return n == longer })
		}
		c.until, longer = until, c
	}
}

func newModel() *model {
	return &model{pin: -1, members: map[string]*member{}, turns: map[string]*turn{}}
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
	ops      []Op
}

// step is one call under way.
type step struct {
	*model
	call
	was     int                 // the limit declared before
	wasRate Rate                // the rate declared before
	results []Result            // of the operations, in their order
	vague   map[int]bool        // results whose Ahead is not specified
	notes   map[string][]string // process → lines
	before  []*member           // the queue before the operations
	fronts  []int64             // and the deadlines of those in it, ms
	weighed int                 // the limit before them; -1 with a pause, or another rate
	wanted  Rate                // the rate that they declare
	thawed  bool                // a pause has just ended by itself
	more    bool
	numbers int // tokens and tickets given
}

// run executes c. A call that comes too late does nothing: ok is false.
func (m *model) run(c call) (s *step, ok bool) {
	if c.notAfter > 0 && c.now > c.notAfter {
		return nil, false
	}
	s = &step{
		model: m, call: c, was: m.declared, wasRate: m.rate, notes: map[string][]string{},
		vague: map[int]bool{}, results: make([]Result, len(c.ops)),
	}
	if s.reap() > 0 {
		s.settle() // reaping is a pass of its own
	}
	s.before, s.wanted = slices.Clone(s.queue), s.rate
	for _, p := range s.before {
		s.fronts = append(s.fronts, p.deadline)
	}
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
	s.setRate(s.wanted)
	s.pump()
	for i := range c.ops {
		if c.ops[i].Verb == Acquire {
			s.results[i] = s.acquire(i, &c.ops[i])
		}
	}
	s.settle()
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
		return cmp.Or(cmp.Compare(a.deadline, b.deadline), cmp.Compare(a.id, b.id))
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
	before := len(s.counts) + s.reapTurns()
	if s.ends > 0 && s.ends <= s.now {
		s.paused, s.ends, s.who, s.thawed, s.weighed = false, 0, "", true, -1
		before++
	}
	s.counts = slices.DeleteFunc(s.counts, func(c *counted) bool { return c.until <= s.now })
	return len(due) + before - len(s.counts)
}

// reapTurns removes the turns that count no more, once a minute, and returns how many it has
// looked at.
func (s *step) reapTurns() (due int) {
	for tenant, t := range s.turns {
		if t.deadline > s.now {
			continue
		}
		due++
		if t.deadline = s.nextMinute(); t.epoch != s.epoch || t.next <= s.us {
			delete(s.turns, tenant)
		}
	}
	return due
}

func (s *step) nextMinute() int64 { return s.now - s.now%60_000 + 60_000 }

// lastCopy is the time until which copies of the member's acquire may come:
// Late after it was granted or queued.
func (p *member) lastCopy() int64 { return max(p.token, p.ticket)/1000 + Late.Milliseconds() }

// leave ends a lease or a place in the queue. Until the time given, a tombstone
// answers for it.
func (s *step) leave(p *member, why Reason, until int64) {
	s.queue = slices.DeleteFunc(s.queue, func(w *member) bool { return w == p })
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
}

// pump grants the head of the queue while it fits. Nobody behind the head is
// looked at: that is the whole of fairness. It looks at as many waiters as there
// are free permits, at all where the limit or the rate has changed or a pause has ended, and
// at no more than chunk; and where there is a rate, at no more than it has room for, and few.
func (s *step) pump() {
	room := s.limit() - s.used()
	if s.rate.N > 0 {
		room = min(room, s.rate.N-s.spent(), looked)
	}
	if s.limit() != s.weighed {
		room = len(s.queue)
	}
	room = max(min(room, len(s.queue), chunk), 0)
	if s.more || s.paused || room == 0 || s.limit() == 0 {
		return
	}
	for _, head := range slices.Clone(s.queue[:room]) {
		switch {
		case head.weight > s.limit(), s.rate.N > 0 && cmp.Or(head.cost, head.weight) > s.rate.N: // it would block the queue for ever
			s.tell(head, "x %s %d", head.id, TooHeavy)
			s.leave(head, TooHeavy, s.now+told)
		case s.used()+head.weight > s.limit(), !s.affords(cmp.Or(head.cost, head.weight)):
			return
		default:
			s.handOff(head)
		}
	}
	s.more = len(s.queue) > 0 && s.used() < s.limit() && s.affords(1)
}

// handOff makes a waiter a holder. Its deadline is that of its last heartbeat.
func (s *step) handOff(p *member) {
	s.queue = s.queue[1:]
	s.grant(p, p.maxHold)
	s.charge(cmp.Or(p.cost, p.weight))
	s.lease(p, p.deadline)
	s.tell(p, "g %s %d %d %d", p.id, p.slot, p.token, s.limit())
}

// settle ends a pass: ties in the queue are broken by id, and what is idle is
// deleted.
func (s *step) settle() {
	slices.SortStableFunc(s.queue, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.id, b.id))
	})
	if len(s.counts) == 0 {
		s.index = 0
	}
	if len(s.queue) == 0 {
		s.epoch = 0
	}
	idle := len(s.members)+len(s.counts)+len(s.turns) == 0 && s.pin < 0 && !s.paused
	// The last number must be remembered while the clock is not past it.
	if idle && s.last < s.us {
		*s.model = *newModel()
		return
	}
	s.exists = true
}
