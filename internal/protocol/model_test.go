package protocol

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// The bounds of transition/general.lua.
const (
	chunk = 500
	front = 1 << 53
)

// note is NOTE in transition/begin.lua, a member of every sorted set, and place its
// score; legend is a field of every hash.
const (
	note   = "berth: queue < 0 <= free slots < this < deadlines (ms); over 64 bytes on purpose"
	legend = "berth: h weight slot token ceiling evicting owner label; w weight since maxhold owner label; x reason"
	place  = 4e9
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
}

// member is a holder, a waiter or a tombstone.
type member struct {
	id       string
	state    state
	weight   int
	owner    string
	label    string
	deadline int64 // ms

	since   int64 // waiter: ms
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

func newModel() *model {
	return &model{pin: -1, members: map[string]*member{}}
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
	results  []Result
	vague    map[int]bool        // results whose Ahead is not specified
	notes    map[string][]string // owner → lines
	before   []*member           // the queue as it was before the call
	arrivals map[string]*arrival // waiters that came in this call
	pumped   int                 // waiters that the pump took out of the queue
	more     bool
	weighed  int // limit under which the head of the queue was last weighed
	numbers  int // tokens and tickets given
}

// arrival is a waiter that came in this call, so its reply is not yet written.
type arrival struct {
	ttl, start int64
	result     int // its index
}

// run executes c. A call that comes too late does nothing: ok is false.
func (m *model) run(c call) (s *step, ok bool) {
	if c.notAfter > 0 && c.now > c.notAfter {
		return nil, false
	}
	s = &step{
		model: m, call: c, notes: map[string][]string{}, arrivals: map[string]*arrival{},
		before: slices.Clone(m.queue), weighed: m.limit(), vague: map[int]bool{},
	}
	s.reap()
	for i := range c.ops {
		s.apply(&c.ops[i])
	}
	s.pump()
	s.settle()
	return s, true
}

// reap takes out everybody whose deadline has come, the earliest first, and no
// more than chunk of them in one call.
func (s *step) reap() {
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
		due, s.more = due[:chunk], true
	}
	for _, p := range due {
		if p.state == dead {
			delete(s.members, p.id)
			continue
		}
		s.tell(p, "x %s %d", p.id, Expired)
		s.leave(p, Expired, p.lastCopy())
	}
}

// lastCopy is the time until which copies of the member's acquire may come:
// Late after it was granted or queued.
func (p *member) lastCopy() float64 {
	if p.state == holding {
		return float64(p.token)/1000 + float64(Late.Milliseconds())
	}
	return float64(p.since + Late.Milliseconds())
}

// leave ends a lease or a place in the queue. Until the time given, a tombstone
// answers for it.
func (s *step) leave(p *member, why Reason, until float64) {
	s.queue = slices.DeleteFunc(s.queue, func(w *member) bool { return w == p })
	delete(s.arrivals, p.id)
	delete(s.members, p.id)
	if until > float64(s.now) {
		s.bury(p.id, why, int64(math.RoundToEven(until)))
	}
}

func (s *step) bury(id string, why Reason, until int64) {
	s.members[id] = &member{id: id, state: dead, reason: why, deadline: until}
}

func (s *step) tell(p *member, format string, args ...any) {
	s.notes[p.owner] = append(s.notes[p.owner], fmt.Sprintf(format, args...))
}

// number is the next token or ticket.
func (s *step) number() int64 {
	s.numbers++
	s.last = max(s.last+1, s.us)
	return s.last
}

func (s *step) grant(p *member, maxHold int64) {
	p.slot = s.lowestFreeSlot()
	p.state, p.token = holding, s.number()
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
// looked at: that is the whole of fairness. A head that is too heavy is found
// when there is room, or when the limit changes.
func (s *step) pump() {
	if len(s.queue) == 0 {
		return
	}
	for s.pumps() {
		head := s.queue[0]
		switch {
		case s.pumped == chunk:
			s.more = true
			continue
		case head.weight > s.limit():
			s.refuse(head)
		case s.used()+head.weight > s.limit():
			s.weighed = s.limit()
			return
		default:
			s.handOff(head)
		}
		s.pumped++
	}
	s.weighed = s.limit()
}

func (s *step) pumps() bool {
	return len(s.queue) > 0 && !s.paused && s.limit() > 0 && !s.more && (s.used() < s.limit() || s.weighed != s.limit())
}

// refuse removes a head that can never fit, lest it block the queue for ever.
func (s *step) refuse(p *member) {
	s.tell(p, "t %s %d", p.id, s.limit())
	if a := s.arrivals[p.id]; a != nil {
		s.results[a.result] = Result{Code: Heavy, Limit: s.limit()}
	}
	s.leave(p, TooHeavy, 0)
}

// handOff makes a waiter a holder. One that came in this call hears of it by
// the reply and has its full TTL; another hears by message and has what is left
// of its heartbeat.
func (s *step) handOff(p *member) {
	s.queue = s.queue[1:]
	s.grant(p, p.maxHold)
	if a := s.arrivals[p.id]; a != nil {
		s.lease(p, s.now+a.ttl)
		s.results[a.result] = s.held(p)
		return
	}
	s.lease(p, p.deadline)
	s.tell(p, "g %s %d %d %d", p.id, p.token, p.slot, s.limit())
}

// settle ends a call: places of arrivals with a head start are counted, ties in
// the queue are broken by id, and what is idle is deleted.
func (s *step) settle() {
	slices.SortStableFunc(s.queue, func(a, b *member) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.id, b.id))
	})
	for i, p := range s.queue {
		if a := s.arrivals[p.id]; a != nil && a.start > 0 {
			s.results[a.result].Ahead = i
			delete(s.vague, a.result)
		}
	}
	idle := len(s.members) == 0 && s.pin < 0 && !s.paused
	// The last number must be remembered while the clock is not past it.
	if idle && s.last < s.us {
		*s.model = *newModel()
		return
	}
	s.exists = true
}
