package protocol

import (
	"math"
	"slices"
	"strings"
)

// Redis has no timers: somebody has to call when time alone lets the head of the queue in. Two
// invariants see to that, and checkHead checks them after each step of each random trial:
//
//   - the head does not fit, or "nearest" is not after now. No deadline ends before "nearest", and
//     time alone does not let the head in before it
//   - the head knows a time at which to look that is not after "nearest": it was answered or told one
//     when it became the head, or was told one since

// lookouts is what heads of the queue know, by id: when to look (ms).
type lookouts map[string]int64

// checkHead checks the invariants, and that nobody is told for no reason: it costs a message.
func (h lookouts) checkHead(t failer, s *step, before dump, said said) {
	t.Helper()
	told := h.hear(t, s, said)
	if len(s.queue) == 0 {
		clear(h)
		return
	}
	head, next := s.head(), said.reply.Next
	for id := range h {
		if p := s.members[id]; id != head.id && (p == nil || !p.asked) {
			delete(h, id) // it is told again if it comes to be the head again
		}
	}
	opens := s.opens(head)
	if next == 0 || next > max(opens, s.now) {
		t.Fatalf("the head %s may go at %d, and nearest is %d; now %d\n%s", head.id, opens, next, s.now, opsString(s.ops))
	}
	if at, ok := h[head.id]; !ok || at > max(opens, s.now) {
		t.Fatalf("the head %s may go at %d, and is to look at %d (known: %v); now %d\n%s\n%v", head.id, opens, at, ok, s.now, opsString(s.ops), said.notes)
	}
	was := waitersOf(before)
	lines := s.turns.epoch > 0 || len(was) > 0 && before.state(t).turns.epoch > 0 // with them the head is told when anybody leaves
	same := len(was) > 0 && was[0].id == head.id && len(s.before) == len(was) && !lines
	if told && same && next >= before.state(t).Next {
		t.Fatalf("the head %s is told again, for nothing: nearest is %d\n%s\n%v", head.id, next, opsString(s.ops), said.notes)
	}
}

// hear takes in what was answered and told in a step.
func (h lookouts) hear(t failer, s *step, said said) (told bool) {
	t.Helper()
	asks := slices.Clone(s.asks)
	for i := range s.ops {
		if r := &said.results[i]; r.Code == Queued && r.Ahead == 0 {
			h[s.ops[i].ID] = said.reply.Next
		}
	}
	for process, lines := range said.notes {
		_, lines = withoutHeads(lines)
		for _, line := range lines {
			n, _ := readNote(line)
			if !n.Next || processOf(n.ID) != process || !slices.ContainsFunc(s.queue, func(p *member) bool { return p.id == n.ID }) {
				t.Fatalf("%q was told to %s, the queue is %v", line, process, s.queue)
			}
			looks := s.now + n.Rest.Milliseconds()
			if known, ok := h[n.ID]; ok && s.members[n.ID].asked { // it answers at once, whatever it is told after that
				looks = min(looks, known)
			}
			if h[n.ID] = looks; !s.asking {
				told = true
				continue
			}
			at := slices.IndexFunc(asks, func(p *member) bool { return p.id == n.ID })
			if at < 0 || n.Rest > 0 {
				t.Fatalf("%q was told to %s, want %v to be asked", line, process, asks)
			}
			asks = slices.Delete(asks, at, at+1)
		}
	}
	if len(asks) > 0 {
		t.Fatalf("not asked for a sign of life: %v\n%s", asks, opsString(s.ops))
	}
	return told
}

// withoutHeads sets apart what heads of the queue are told.
func withoutHeads(lines []string) (rest, toHeads []string) {
	for _, line := range lines {
		if strings.HasPrefix(line, "n ") {
			toHeads = append(toHeads, line)
		} else {
			rest = append(rest, line)
		}
	}
	return rest, toHeads
}

// opens is when a deadline ends, or time alone lets the head in, whichever is first.
func (s *step) opens(head *member) int64 {
	at := int64(math.MaxInt64)
	for _, p := range s.members {
		at = min(at, p.deadline)
	}
	if s.ends > 0 {
		at = min(at, s.ends)
	}
	if s.used()+head.weight <= s.limit() && !s.paused {
		rest := s.rest(head.costs, head.weight).Milliseconds() // 0, too, where it may be dead
		if rest == 0 && !s.looks() {
			rest = 1 // a bucket has had enough for less than a millisecond
		}
		at = min(at, s.now+rest)
	}
	return at
}
