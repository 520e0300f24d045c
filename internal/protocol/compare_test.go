package protocol

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The comparison of what the script answered, stored and published with what
// the model did.

// compareReply checks the replies of a step. The next deadline is a lower bound.
func compareReply(t failer, s *step, reply Reply, got []Result) {
	t.Helper()
	for i, vague := range s.vague {
		if vague && i < len(got) {
			s.results[i].Ahead, s.results[i].Front = got[i].Ahead, got[i].Front
		}
	}
	if !slices.Equal(got, s.results) {
		t.Fatalf("results of %s\n got %+v\nwant %+v", opsString(s.ops), got, s.results)
	}
	want := s.numbersOf()
	if reply.More != s.more || reply.Now != s.now || !matches(reply.State, want) {
		t.Fatalf("reply %+v, want more=%v now=%d %+v\n%s", reply, s.more, s.now, want, opsString(s.ops))
	}
	if acquires := slices.ContainsFunc(s.ops, func(op Op) bool { return op.Verb == Acquire }); acquires && reply.Was != s.was {
		t.Fatalf("limit %d was declared before, want %d", reply.Was, s.was)
	}
	if reply.WasRates != s.wasRates {
		t.Fatalf("rates %q were in force before, want %q", reply.WasRates, s.wasRates)
	}
	if reply.Ends != s.ends {
		t.Fatalf("it is said to be paused until %d, want %d", reply.Ends, s.ends)
	}
	checkBound(t, s.model, reply.Next)
}

// numbersOf are the numbers that a model fixes; slots and times are lower bounds.
func (m *model) numbersOf() State {
	s := State{
		Rates: m.set(), RatesPinned: m.ratesPinned,
		Declared: m.declared, Pin: m.pin, Paused: m.paused, Changes: m.changes, Used: m.used(),
		Holders: len(m.all(holding)), Waiting: len(m.queue), Others: len(m.all(dead)) + len(m.lines), Last: m.last,
		turns: m.turns,
	}
	if s.turns.epoch > 0 {
		s.turns.plain, s.turns.lines = len(m.of("")), m.countLines()
	}
	if m.ends > 0 {
		s.Ends = m.ends
		s.Others++
	}
	if _, ok := m.counting(); ok {
		s.Others++
	}
	for i, r := range m.rates {
		s.tallies[i] = r.tally()
	}
	return s
}

// matches reports whether got has the numbers that a model fixes. When a pause ends is not
// among those that are stored.
func matches(got, want State) bool {
	got.Ends, want.Ends = 0, 0
	got.Slots, got.Next, got.Till, got.Lapses = 0, 0, 0, false
	return got == want
}

// checkBound checks that nothing may run out before next; 0 stands for never.
func checkBound(t failer, m *model, next int64) {
	t.Helper()
	for _, p := range m.members {
		if next == 0 || next > p.deadline {
			t.Fatalf("next deadline is said to be %d, but that of %s is %d", next, p.id, p.deadline)
		}
	}
	if until, ok := m.counting(); ok && (next == 0 || next > until) {
		t.Fatalf("next deadline is said to be %d, but the last counts until %d", next, until)
	}
	for tenant, l := range m.lines {
		if len(m.of(tenant)) == 0 && (next == 0 || next > l.deadline) {
			t.Fatalf("next deadline is said to be %d, but that of %s's line is %d", next, tenant, l.deadline)
		}
	}
	if m.ends > 0 && (next == 0 || next > m.ends) {
		t.Fatalf("next deadline is said to be %d, but a pause ends at %d", next, m.ends)
	}
}

// compareNotes checks the messages of a step: who heard what, in any order, but for what heads of
// the queue are told, which is for checkHead.
func compareNotes(t failer, s *step, all map[string][]string) {
	t.Helper()
	for _, lines := range s.notes {
		slices.Sort(lines)
	}
	got := map[string][]string{}
	for process, lines := range all {
		if lines, _ = withoutHeads(lines); len(lines) > 0 {
			got[process] = lines
		}
	}
	if !maps.EqualFunc(got, s.notes, slices.Equal) {
		t.Fatalf("messages after %s\n got %v\nwant %v", opsString(s.ops), got, s.notes)
	}
}

// compareDump checks every byte that is stored, save two lower bounds: the
// nearest deadline, and how far the numbers of free slots reach.
func compareDump(t failer, m *model, d dump) {
	t.Helper()
	if d.exists() != m.exists {
		t.Fatalf("keys exist: %v, want %v\n%v", d.exists(), m.exists, d)
	}
	if !m.exists {
		return
	}
	got, want := d.state(t), m.dump()
	checkBound(t, m, got.Next)
	checkSlots(t, m, d)
	if !matches(got, m.numbersOf()) {
		t.Fatalf("state %+v, want %+v", got, m.numbersOf())
	}
	want.fields["state"] = d.fields["state"]
	for _, slot := range d.freeSlots() { // checkSlots judges them
		want.scores[strconv.Itoa(slot)] = float64(slot)
	}
	if !reflect.DeepEqual(d.fields, want.fields) || !reflect.DeepEqual(d.scores, want.scores) {
		t.Fatalf("stored\n%v\nwant\n%v", d, want)
	}
	checkForms(t, d)
}

// checkSlots checks that each number below slots is held by one or is free.
func checkSlots(t failer, m *model, d dump) {
	t.Helper()
	numbers := d.freeSlots()
	for _, p := range m.all(holding) {
		numbers = append(numbers, p.slot)
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if i != n {
			t.Fatalf("slots held or free: %v", numbers)
		}
	}
	if n := d.state(t).Slots; n != len(numbers) {
		t.Fatalf("%d slots are counted, %v are held or free", n, numbers)
	}
}

// dump is what must be stored, but for the numbers.
func (m *model) dump() dump {
	d := dump{fields: map[string]string{}, scores: map[string]float64{}}
	for id, p := range m.members {
		d.scores[note] = place
		d.fields[id] = p.record()
		d.scores[id] = p.deadlineScore()
		if p.state == waiting {
			d.scores["#"+id] = float64(p.score)
		}
	}
	if until, ok := m.counting(); ok {
		d.scores[note], d.scores["!r"] = place, float64(until)
		d.fields["!r"] = "r |"
		for _, r := range m.rates {
			d.fields["!r"] += strings.Trim(fmt.Sprint(r.row()), "[]") + "|"
		}
	}
	for tenant, l := range m.lines {
		d.scores[note], d.scores["!t"+tenant] = place, float64(l.deadline)
		count := len(m.of(tenant))
		if count > 0 {
			d.scores["!t"+tenant] = float64(l.place - 1<<51)
		}
		d.fields["!t"+tenant] = fmt.Sprintf("t %d %d %d %d %d %d", l.epoch, l.number, l.began, l.pos, l.place, count)
	}
	if m.ends > 0 {
		d.scores[note], d.scores["!p"], d.fields["!p"] = place, float64(m.ends), "p "+m.who
	}
	return d
}

// deadlineScore is the deadline as it is stored.
func (p *member) deadlineScore() float64 {
	if p.asked {
		return float64(p.deadline) - 0.5
	}
	return float64(p.deadline)
}

func (p *member) record() string {
	switch {
	case p.state == waiting:
		return fmt.Sprintf("w %d %s %d %d %d %d %s %s", p.weight, p.costs.encode(), p.ticket, p.maxHold, p.ttl, p.beat, p.ownerFor(), p.label)
	case p.state == dead && p.reason == WasMoved:
		return fmt.Sprintf("x %d %s", p.reason, p.owner)
	case p.state == dead:
		return fmt.Sprintf("x %d", p.reason)
	}
	kind := "h"
	if p.evicting {
		kind = "e"
	}
	var charges []string
	for _, c := range p.charges {
		charges = append(charges, fmt.Sprintf("%s:%d@%d", c.unit, c.n, c.since))
	}
	return fmt.Sprintf("%s %d %d %d %d %d %s %s %s", kind, p.weight, p.slot, p.token, p.ceiling, p.ttl,
		cmp.Or(strings.Join(charges, ","), "-"), p.ownerFor(), p.label)
}

// ownerFor is the owner, and behind it the tenant.
func (p *member) ownerFor() string {
	if p.tenant == "" {
		return p.owner
	}
	if p.share > 1 {
		return fmt.Sprintf("%s;share=%d;tenant=%s", p.owner, p.share, p.tenant)
	}
	return p.owner + ";tenant=" + p.tenant
}

// compareLapse checks when the keys will vanish by themselves: never while that
// could hurt, and in time otherwise.
func compareLapse(t failer, r *rig, m *model, now int64, d dump) {
	t.Helper()
	if !m.exists {
		return
	}
	numbers := d.state(t)
	for i, lapse := range d.lapse {
		at := now + lapse.Milliseconds()
		switch present := i == 0 || len(d.scores) > 0; {
		case !present:
		case !numbers.Lapses && lapse >= 0:
			t.Fatalf("key %d vanishes in %v, want never\n%v", i, lapse, d)
		case numbers.Lapses && (lapse < 0 || at > numbers.Till+1):
			t.Fatalf("key %d vanishes in %v, want at %d, now %d\n%v", i, lapse, numbers.Till, now, d)
		case numbers.Lapses && r.mr != nil && at < numbers.Till-1:
			t.Fatalf("key %d vanishes in %v, want at %d, now %d\n%v", i, lapse, numbers.Till, now, d)
		}
	}
	least, lapses := m.leastLapse(r.keeps, now)
	if lapses != numbers.Lapses || numbers.Till < least {
		t.Fatalf("keys vanish: %v, at %d; want %v, at %d or later\n%v", numbers.Lapses, numbers.Till, lapses, least, d)
	}
	// Where only tombstones are left, they last for a minute, and the keys for another.
	live := m.live()
	if latest := max(least, now+60_000) + 60_000; lapses && !live && numbers.Till > latest {
		t.Fatalf("keys vanish at %d, nobody holds or waits, want at %d at the latest\n%v", numbers.Till, latest, d)
	}
}

// live reports whether there is more than tombstones.
func (m *model) live() bool {
	_, counting := m.counting()
	return len(m.queue)+len(m.all(holding)) > 0 || counting || m.ends > 0
}

// leastLapse is the earliest time at which the keys may vanish, and whether they
// will.
func (m *model) leastLapse(keeps bool, now int64) (at int64, lapses bool) {
	live := m.live()
	for _, p := range m.members {
		at = max(at, p.deadline+1000)
	}
	if until, ok := m.counting(); ok {
		at = max(at, until+1000)
	}
	for tenant, l := range m.lines {
		if len(m.of(tenant)) == 0 {
			at = max(at, l.deadline+1000)
		}
	}
	if m.ends > 0 {
		at = max(at, m.ends+1000)
	}
	lapses = m.pin < 0 && !m.ratesPinned && (!m.paused || m.ends > 0) && (keeps || !live)
	if lapses && !live {
		at = max(at, now+1, int64(math.Ceil(float64(m.last)/1000))+1000)
	}
	return at, lapses
}

// compareSnapshot checks what Inspect reads, with records and without.
func compareSnapshot(t failer, r *rig, m *model) {
	t.Helper()
	for _, records := range []bool{true, false} {
		got, err := Inspect(context.Background(), r.stores[0], r.key, records)
		if err != nil {
			t.Fatalf("%v", err)
		}
		want := m.snapshot(got.Now)
		want.Next, want.Slots, want.Till, want.Lapses = got.Next, got.Slots, got.Till, got.Lapses
		compareNext(t, want, got.Next, records)
		if !m.exists {
			want = &Seen{Now: got.Now}
		}
		if !records {
			want.Leases, want.Queue = nil, nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("inspect, with records: %v\n got %+v\nwant %+v", records, got, want)
		}
	}
}

// compareNext checks when the next lease or waiter is said to expire: exactly with records, and
// at the earliest without.
func compareNext(t failer, s *Seen, got int64, records bool) {
	t.Helper()
	next := int64(0)
	for _, r := range slices.Concat(s.Leases, s.Queue) {
		if next == 0 || r.Expires < next {
			next = r.Expires
		}
	}
	if got > next || got == 0 && next > 0 || records && got != next {
		t.Fatalf("inspect, with records: %v: the next expires at %d, want %d", records, got, next)
	}
}

// snapshot is what Inspect should read at the time now.
func (m *model) snapshot(now int64) *Seen {
	s := &Seen{Exists: m.exists, Now: now, State: m.numbersOf(), Who: m.who}
	for _, p := range m.all(holding) {
		s.Leases = append(s.Leases, p.view())
	}
	slices.SortFunc(s.Leases, func(a, b SeenRecord) int { return cmp.Compare(a.Token, b.Token) })
	for _, p := range m.inTurns() {
		s.Queue = append(s.Queue, p.view())
	}
	var left [MostRates]int
	for i, r := range m.rates {
		for _, n := range r.times() {
			if r.ends(n) <= now {
				left[i] += r.sums[n]
			} else {
				s.Counted = append(s.Counted, SeenCounted{i, r.sums[n], r.ends(n)})
			}
		}
	}
	s.Stale = s.Fade(now, left)
	if s.Ends > 0 && s.Ends <= now {
		s.Paused, s.Ends, s.Who, s.Stale = false, 0, "", true
	}
	if len(m.queue) > 0 {
		s.Oldest = m.queue[0].view().Since
	}
	for _, r := range slices.Concat(s.Leases, s.Queue) {
		if r.Expires <= now {
			s.Expired++
		}
	}
	return s
}

// view is a member as an operator sees it.
func (p *member) view() SeenRecord {
	pid, rest, _ := strings.Cut(p.owner, "/")
	v := SeenRecord{ID: p.id, Weight: p.weight, Expires: p.deadline, TTL: milliseconds(p.ttl), Label: p.label, Tenant: p.tenant, Since: p.ticket / 1000}
	if v.PID, _ = strconv.Atoi(pid); p.tenant != "" {
		v.Share = max(p.share, 1)
	}
	v.Host, v.Client, _ = strings.Cut(rest, ";")
	if p.state == waiting {
		v.Costs = p.costs
	}
	if p.state == holding {
		v.Slot, v.Token, v.Since, v.Ceiling, v.Evicting = p.slot, p.token, p.token/1000, p.ceiling, p.evicting
		var costs []Cost
		for _, c := range p.charges {
			costs = append(costs, Cost{c.unit, c.n})
		}
		v.Costs, _ = JoinCosts(costs...)
	}
	return v
}

// at returns a time of the hand-set clock in the two units of the protocol.
func at(clock time.Time) (ms, us int64) { return clock.UnixMilli(), clock.UnixMicro() }
