package protocol

import (
	"cmp"
	"math"
	"slices"
)

// The lines of the model: "Lines" in transition.lua.

// of returns the waiters of a tenant, in order; "": those without one.
func (m *model) of(tenant string) (all []*member) {
	for _, p := range m.queue {
		if p.tenant == tenant {
			all = append(all, p)
		}
	}
	return all
}

// waitFor returns the tenants that have waiters, in their order as names; "" is not one.
func (m *model) waitFor() (names []string) {
	for _, p := range m.queue {
		if p.tenant != "" && !slices.Contains(names, p.tenant) {
			names = append(names, p.tenant)
		}
	}
	slices.Sort(names)
	return names
}

// countLines returns how many tenants have waiters.
func (m *model) countLines() int { return len(m.waitFor()) }

// head returns the waiter who is next.
func (m *model) head() *member {
	least, at := "", int64(math.MaxInt64)
	if len(m.of("")) > 0 {
		at = m.turns.place
	}
	for _, name := range m.waitFor() {
		if place := m.lines[name].place; place < at {
			least, at = name, place
		}
	}
	return m.of(least)[0]
}

// unline takes a waiter out of the queue.
func (s *step) unline(p *member) {
	s.queue = slices.DeleteFunc(s.queue, func(w *member) bool { return w == p })
	if p.tenant != "" && len(s.of(p.tenant)) == 0 {
		s.lines[p.tenant].deadline = s.lingers()
	}
}

// lingers is the deadline of an empty line.
func (s *step) lingers() int64 { return s.now - s.now%1000 + 61_000 }

// charged is by how much a grant moves a line on.
func (m *model) step(weight int, costs Costs, share int) int64 {
	size := float64(weight) / float64(max(m.limit(), 1))
	for _, r := range m.rates {
		size = max(size, float64(costs.Of(r.Unit, weight))/float64(cmp.Or(r.Burst, r.N)))
	}
	return int64(min(max(math.Ceil(size*(1<<26)/float64(cmp.Or(share, 1))), 1), 1<<26))
}

// goesOn charges the grant of the head to its line.
func (s *step) goesOn(p *member) {
	if s.turns.epoch == 0 {
		return
	}
	place := &s.turns.place
	if p.tenant != "" {
		place = &s.lines[p.tenant].place
	}
	s.turns.clock = max(s.turns.clock, *place)
	s.turns.fresh = max(s.turns.fresh, s.turns.clock)
	*place += s.step(p.weight, p.costs, p.share)
}

// stand puts a newcomer into its line, and returns its score.
func (s *step) stand(p *member, headStart int64) int64 {
	if p.tenant != "" && s.turns.epoch == 0 {
		s.turns = turns{epoch: p.ticket}
	}
	if s.turns.epoch == 0 {
		return p.ticket - headStart*1000 - front
	}
	place, first, known := &s.turns.place, len(s.of(p.tenant)) == 0, s.turns.place > 0
	l := s.lines[p.tenant]
	if p.tenant != "" {
		if l == nil {
			l = &line{}
			s.lines[p.tenant] = l
		}
		known = l.epoch == s.turns.epoch
		l.epoch, place = s.turns.epoch, &l.place
	}
	switch {
	case first && known:
		*place = max(s.turns.clock, *place)
	case first:
		*place = s.turns.fresh
		s.turns.fresh += max(s.step(p.weight, p.costs, p.share)/int64(len(s.queue)+1), 1)
	}
	if p.tenant == "" {
		return p.ticket - headStart*1000 - front
	}
	if first {
		l.number, l.began, l.pos = int64(s.turns.next), s.now, 0
		s.turns.next++
	}
	l.pos = max(s.now-l.began+1<<32, l.pos+1)
	return l.number<<34 + l.pos - headStart - 1<<52
}

// full reports whether too many wait for one more.
func (s *step) full(tenant string, most int) bool {
	if s.turns.epoch == 0 && tenant == "" {
		return len(s.queue) >= most
	}
	own, lines := len(s.of(tenant)), s.countLines()
	if len(s.of("")) > 0 {
		lines++
	}
	if own == 0 {
		lines++
	}
	return (own+1)*lines > most
}

// reapLines removes the empty lines that count no more, and returns how many it has looked at.
func (s *step) reapLines() (due int) {
	for tenant, l := range s.lines {
		if len(s.of(tenant)) > 0 || l.deadline > s.now {
			continue
		}
		due++
		if l.deadline = s.lingers(); l.epoch != s.turns.epoch || l.place <= s.turns.clock {
			delete(s.lines, tenant)
		}
	}
	return due
}

// inTurns returns the queue as its lines would be served.
func (m *model) inTurns() (all []*member) {
	if m.turns.epoch == 0 {
		return m.queue
	}
	s := &step{model: &model{queue: slices.Clone(m.queue), turns: m.turns, lines: map[string]*line{}, rates: m.rates, declared: m.declared, pin: m.pin}}
	for name, l := range m.lines {
		mine := *l
		s.lines[name] = &mine
	}
	for len(s.queue) > 0 {
		p := s.head()
		s.goesOn(p)
		s.unline(p)
		all = append(all, p)
	}
	return all
}
