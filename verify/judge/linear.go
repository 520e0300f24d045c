package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/berth-go/berth/verify/history"
)

const (
	mostOps     = 1000 // in one history
	mostUnknown = 20   // one operation in so many may have an unknown outcome
	timeout     = 20 * time.Second
)

// Picture is a history that is not linearizable, as porcupine draws it.
type Picture struct {
	Name string
	HTML string
}

// request is an input of the model, answer its output.
type request struct {
	verb   verb
	id     int // of the lease
	to     int // move: its new id
	weight int
	limit  int
}

// verb is what a request does with a lease.
type verb string

const (
	take verb = "try"
	move verb = "move"      // a lease gets another id: a handle's, or its adopter's
	back verb = "give back" // a lease is released, or expires
)

type answer struct {
	outcome history.Outcome
	token   int64
	used    int
}

// state is the state of the model: the leases in force, by id, and the last token.
type state struct {
	out  string // "id:weight " for each, in order of id
	used int
	last int64
}

// permits is the model of a semaphore without waiters. A request that was granted
// found room and got a larger token than all before. One that was refused was told
// how many permits are in use. One whose outcome is unknown took permits if there
// was room, or nothing.
var permits = porcupine.NondeterministicModel{
	Init:              func() []any { return []any{state{}} },
	Step:              func(s, in, out any) []any { return step(s.(state), in.(request), out.(answer)) },
	DescribeOperation: func(in, out any) string { return describe(in.(request), out.(answer)) },
	DescribeState:     func(s any) string { return s.(state).String() },
}

// String implements fmt.Stringer, for porcupine to describe a history with.
func (s state) String() string {
	return fmt.Sprintf("%d out (%s), last token %d", s.used, strings.TrimSpace(s.out), s.last)
}

func step(s state, in request, out answer) []any {
	mark := mark(in.id, in.weight)
	switch in.verb {
	case take:
		return stepTake(s, mark, in, out)
	case move:
		return stepMove(s, mark, in, out)
	}
	if s.has(mark) {
		return []any{s.without(mark, in.weight)}
	}
	if out.outcome == history.OK {
		return nil
	}
	return []any{s}
}

func mark(id, weight int) string { return fmt.Sprintf("%d:%d ", id, weight) }

func stepTake(s state, mark string, in request, out answer) []any {
	fits := s.used+in.weight <= in.limit
	switch {
	case out.outcome == history.OK && fits && out.token > s.last:
		return []any{s.with(mark, in.weight, out.token)}
	case out.outcome == history.Busy && !fits && out.used == s.used:
		return []any{s}
	case out.outcome == history.Unknown && fits:
		return []any{s, s.with(mark, in.weight, s.last)}
	case out.outcome == history.Unknown:
		return []any{s}
	}
	return nil
}

// stepMove gives a lease its new id if it has the old one. A client that gives a
// lease away does not learn the token that the lease gets by that.
func stepMove(s state, old string, in request, out answer) []any {
	if !s.has(old) {
		if out.outcome == history.OK {
			return nil
		}
		return []any{s}
	}
	moved := s.without(old, in.weight).with(mark(in.to, in.weight), in.weight, max(s.last, out.token))
	switch {
	case out.outcome == history.Unknown:
		return []any{s, moved}
	case out.outcome == history.OK && (out.token == 0 || out.token > s.last):
		return []any{moved}
	}
	return nil
}

func (s state) has(mark string) bool { return strings.Contains(" "+s.out, " "+mark) }

func (s state) without(mark string, weight int) state {
	out := strings.TrimPrefix(strings.Replace(" "+s.out, " "+mark, " ", 1), " ")
	return state{out, s.used - weight, s.last}
}

// with adds a lease. It keeps the marks sorted, so that equal states compare equal.
func (s state) with(mark string, weight int, token int64) state {
	all := append(strings.SplitAfter(s.out, " "), mark)
	slices.Sort(all)
	return state{strings.Join(all, ""), s.used + weight, token}
}

func describe(in request, out answer) string {
	switch in.verb {
	case move:
		return fmt.Sprintf("move %d to %d: %s %d", in.id, in.to, out.outcome, out.token)
	case back:
		return fmt.Sprintf("give back %d: %s", in.id, out.outcome)
	}
	s := fmt.Sprintf("try %d (weight %d of %d): %s", in.id, in.weight, in.limit, out.outcome)
	switch out.outcome {
	case history.OK:
		s += fmt.Sprintf(" %d", out.token)
	case history.Busy:
		s += fmt.Sprintf(", %d in use", out.used)
	}
	return s
}

// linear has porcupine check the history of every name that begins with rules.Linear.
func (v *Verdict) linear(names map[string][]*Op, run *Run, rules Rules) {
	model := permits.ToModel()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if rules.Linear == "" || !strings.HasPrefix(name, rules.Linear) {
			continue
		}
		ops, unknown := run.operations(names[name])
		if unknown*mostUnknown > len(ops) || len(ops) > mostOps {
			v.Skipped++
			continue
		}
		v.Histories++
		v.Checked += len(ops)
		result, info := porcupine.CheckOperationsVerbose(model, ops, timeout)
		if result == porcupine.Ok {
			continue
		}
		var html strings.Builder
		if err := porcupine.Visualize(model, info, &html); err == nil {
			v.Pictures = append(v.Pictures, Picture{name, html.String()})
		}
		v.add("linearizability", name, names[name][0].Invoked, nil, "%d operations: porcupine says %s", len(ops), result)
	}
}

// operations translates a history into porcupine's operations and counts those whose
// outcome is unknown. A lease that was not released ends when it may have expired.
func (r *Run) operations(ops []*Op) ([]porcupine.Operation, int) {
	t := &translation{run: r, clients: map[[2]int]int{}, ids: map[*Op]int{}, handles: map[string]int{}}
	for _, o := range ops {
		t.ids[o] = len(t.ids)
		for _, h := range []string{o.Given, o.Handle} {
			if _, ok := t.handles[h]; !ok {
				t.handles[h] = -1 - len(t.handles)
			}
		}
	}
	for _, o := range ops {
		t.request(o)
		if o.Held() {
			t.end(o)
		}
	}
	return t.all, t.unknown
}

// translation is the state of operations.
type translation struct {
	run     *Run
	clients map[[2]int]int // by process and seat
	ids     map[*Op]int    // of leases, from 0
	handles map[string]int // of leases that were given away, below 0
	all     []porcupine.Operation
	unknown int
}

func (t *translation) add(o *Op, in request, call, ret history.Time, out answer) {
	who := [2]int{o.Proc, o.Seat}
	if _, ok := t.clients[who]; !ok {
		t.clients[who] = len(t.clients)
	}
	in.weight, in.limit = o.Weight, o.Limit
	t.all = append(t.all, porcupine.Operation{ClientId: t.clients[who], Input: in, Output: out, Call: int64(call), Return: int64(ret)})
}

// request adds o's request. If its outcome is unknown it may have happened at any
// time after its invocation, and what it got may have ended at any time.
func (t *translation) request(o *Op) {
	in := request{verb: take, id: t.ids[o]}
	if o.Verb == history.Adopt {
		in = request{verb: move, id: t.handles[o.Handle], to: t.ids[o]}
	}
	switch {
	case o.Held():
		t.add(o, in, o.Invoked, o.Returned, answer{outcome: history.OK, token: o.Token})
	case o.Verb == history.Adopt && (o.Outcome == history.Gone && !o.late() || o.Outcome == history.Taken):
		t.add(o, in, o.Invoked, o.Returned, answer{outcome: history.Gone})
	case o.Outcome == history.Busy && !t.run.unheard(o):
		t.add(o, in, o.Invoked, o.Returned, answer{outcome: history.Busy, used: o.Used})
	default:
		t.unknown++
		none := answer{outcome: history.Unknown}
		t.add(o, in, o.Invoked, history.Never, none)
		t.add(o, request{verb: back, id: t.ids[o]}, o.Invoked, history.Never, none)
	}
}

// late reports whether o may have adopted a lease with a request that got no answer,
// and have been told by its repetition, after the lease had expired, that it is gone.
func (o *Op) late() bool { return o.Returned.Sub(o.Invoked) >= o.TTL }

// end adds the end of o's lease.
func (t *translation) end(o *Op) {
	out, none := request{verb: back, id: t.ids[o]}, answer{outcome: history.Unknown}
	rel := o.Released
	dead := t.run.killed(o.Proc)
	switch {
	case o.Given != "":
		handle := t.handles[o.Given]
		t.add(o, request{verb: move, id: out.id, to: handle}, rel.Invoked, rel.Returned, answer{outcome: history.OK})
		if t.run.adopter(o) == nil { // it expires after a whole TTL
			t.add(o, request{verb: back, id: handle}, rel.Invoked.Add(o.TTL-2*time.Millisecond), rel.Returned.Add(2*o.TTL), none)
		}
	case rel.Outcome == history.OK:
		t.add(o, out, rel.Invoked, rel.Returned, answer{outcome: history.OK})
	case rel.Outcome == history.Gone:
		t.add(o, out, min(rel.Invoked, o.Until), rel.Returned, answer{outcome: history.OK})
	default:
		t.unknown++
		t.add(o, out, min(rel.Invoked, o.Until), max(o.Until, min(dead, t.run.End)).Add(2*o.TTL), none)
	}
}
