package protocol

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
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
			s.results[i].Ahead = got[i].Ahead
		}
	}
	if !slices.Equal(got, s.results) {
		t.Fatalf("results of %s\n got %+v\nwant %+v", opsString(s.ops), got, s.results)
	}
	if waiting := len(s.queue); reply.More != s.more || reply.Now != s.now || reply.Waiting != waiting {
		t.Fatalf("reply %+v, want more=%v now=%d waiting=%d", reply, s.more, s.now, waiting)
	}
	checkBound(t, s.model, reply.Next)
}

// checkBound checks that nothing may run out before next; 0 stands for never.
func checkBound(t failer, m *model, next int64) {
	t.Helper()
	for _, p := range m.members {
		if next == 0 || next > p.deadline {
			t.Fatalf("next deadline is said to be %d, but that of %s is %d", next, p.id, p.deadline)
		}
	}
}

// compareNotes checks the messages of a step: who heard what, in any order.
func compareNotes(t failer, s *step, got map[string][]string) {
	t.Helper()
	for _, lines := range s.notes {
		slices.Sort(lines)
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
	c := d.counts(t)
	checkBound(t, m, c.nearest)
	checkSlots(t, m, d)
	want := m.dump()
	tail := strings.Join(strings.Split(d.fields["counts"], " ")[4:], " ")
	want.fields["counts"] += " " + tail
	for _, n := range d.freeSlots() {
		want.scores[fmt.Sprintf("s%d", n)] = float64(n)
	}
	if !reflect.DeepEqual(d.fields, want.fields) || !reflect.DeepEqual(d.scores, want.scores) {
		t.Fatalf("stored\n%v\nwant\n%v", d, want)
	}
	if c.last != m.last {
		t.Fatalf("last number %d, want %d", c.last, m.last)
	}
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
	if n := d.counts(t).slots; n != len(numbers) {
		t.Fatalf("%d slots are counted, %v are held or free", n, numbers)
	}
}

// dump is what must be stored; of the counts, the first four.
func (m *model) dump() dump {
	d := dump{fields: map[string]string{}, scores: map[string]float64{}}
	paused := 0
	if m.paused {
		paused = 1
	}
	d.fields["settings"] = fmt.Sprintf("1 %d %d %d %d", m.declared, m.pin, paused, m.changes)
	d.fields["counts"] = fmt.Sprintf("%d %d %d %d", m.used(), len(m.all(holding)), len(m.queue), len(m.all(dead)))
	d.fields["note"], d.scores[note] = legend, place
	for id, p := range m.members {
		d.fields[id] = p.record()
		d.scores[id] = float64(p.deadline)
		if p.state == waiting {
			d.scores["q"+id] = float64(p.score)
		}
	}
	return d
}

func (p *member) record() string {
	switch p.state {
	case holding:
		evicting := 0
		if p.evicting {
			evicting = 1
		}
		return fmt.Sprintf("h %d %d %d %d %d %s %s", p.weight, p.slot, p.token, p.ceiling, evicting, recorded(p.owner, p.id), p.label)
	case waiting:
		return fmt.Sprintf("w %d %d %d %s %s", p.weight, p.since, p.maxHold, recorded(p.owner, p.id), p.label)
	default:
		return fmt.Sprintf("x %d", p.reason)
	}
}

// compareLapse checks when the keys will vanish by themselves: never while that
// could hurt, and in time otherwise.
func compareLapse(t failer, r *rig, m *model, now int64, d dump) {
	t.Helper()
	if !m.exists {
		return
	}
	expires := d.counts(t).expires
	for i, lapse := range d.lapse {
		switch present := i == 0 || len(d.scores) > 0; {
		case !present:
		case expires == 0 && lapse >= 0:
			t.Fatalf("key %d vanishes in %v, want never\n%v", i, lapse, d)
		case expires > 0 && (lapse < 0 || now+lapse.Milliseconds() > expires+1):
			t.Fatalf("key %d vanishes in %v, want at %d, now %d\n%v", i, lapse, expires, now, d)
		case expires > 0 && r.mr != nil && now+lapse.Milliseconds() < expires-1:
			t.Fatalf("key %d vanishes in %v, want at %d, now %d\n%v", i, lapse, expires, now, d)
		}
	}
	least, forever := m.leastLapse(r.keeps, now)
	if forever && expires != 0 || !forever && expires < least {
		t.Fatalf("keys vanish at %d, want at %d or later, never: %v\n%v", expires, least, forever, d)
	}
}

// leastLapse is the earliest time at which the keys may vanish.
func (m *model) leastLapse(keeps bool, now int64) (at int64, forever bool) {
	live := len(m.queue)+len(m.all(holding)) > 0
	if m.pin >= 0 || m.paused || live && !keeps {
		return 0, true
	}
	for _, p := range m.members {
		at = max(at, p.deadline+1000)
	}
	if !live {
		at = max(at, now+1, int64(math.Ceil(float64(m.last)/1000))+1000)
	}
	return at, false
}

// compareSnapshot checks what Inspect reads.
func compareSnapshot(t failer, r *rig, m *model) {
	t.Helper()
	got, err := r.stores[0].Inspect(context.Background(), r.keys, true)
	if err != nil {
		t.Fatalf("%v", err)
	}
	want := m.snapshot()
	want.Now, want.Next = got.Now, got.Next
	if !m.exists {
		want = &Snapshot{Now: got.Now}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("inspect\n got %+v\nwant %+v", got, want)
	}
}

func (m *model) snapshot() *Snapshot {
	s := &Snapshot{
		Exists: m.exists, Declared: m.declared, Pin: m.pin, Paused: m.paused, Changes: m.changes,
		Used: m.used(), Holders: len(m.all(holding)), Waiting: len(m.queue), Tombs: len(m.all(dead)), Last: m.last,
	}
	for _, p := range m.all(holding) {
		s.Leases = append(s.Leases, p.view())
	}
	slices.SortFunc(s.Leases, func(a, b Record) int { return int(a.Token - b.Token) })
	for _, p := range m.queue {
		s.Queue = append(s.Queue, p.view())
	}
	return s
}

// view is a member as an operator sees it.
func (p *member) view() Record {
	owner := strings.Split(p.owner, "/")
	v := Record{ID: p.id, Weight: p.weight, Expires: p.deadline, Host: owner[2], Label: p.label, Since: p.since}
	_, _ = fmt.Sscan(owner[1], &v.PID)
	if p.state == holding {
		v.Slot, v.Token, v.Since, v.Evicting = p.slot, p.token, p.token/1000, p.evicting
	}
	return v
}

// elapsed tells whether keys that were to vanish at expires have done so at now.
func elapsed(expires, now int64) bool { return expires > 0 && now >= expires }

// at returns a time of the hand-set clock in the two units of the protocol.
func at(clock time.Time) (ms, us int64) { return clock.UnixMilli(), clock.UnixMicro() }
