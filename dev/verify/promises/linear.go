package promises

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/berth-go/berth/dev/verify/history"
)

const (
	mostOps     = 1000 // in one history
	mostUnknown = 20   // one operation in so many may have an unknown outcome
	timeout     = 20 * time.Second
)

// request is an input of the model, answer its output. Its verb is Try; Detach or Adopt,
// by which a lease gets another id: a handle, or its adopter's; or Release, which is also
// how a lease expires.
type request struct {
	verb   history.Verb
	id     string // of the lease
	to     string // its new id
	weight int
	limit  int
}

type answer struct {
	outcome history.Outcome
	token   int64
	used    int
}

// state is the state of the model: the leases in force, by id, and the last token.
type state struct {
	out  string // "id " for each, in order
	used int
	last int64
}

// permits is the model of a semaphore without waiters. A request that was granted
// found room and got a larger token than all before. One that was refused was told
// how many permits are in use. One whose outcome is unknown took permits if there
// was room, or nothing.
var permits = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{}} },
	Step: func(s, in, out any) []any {
		if in.(request).verb == history.Try {
			return stepTake(s.(state), in.(request), out.(answer))
		}
		return stepLease(s.(state), in.(request), out.(answer))
	},
	DescribeOperation: func(in, out any) string { return describe(in.(request), out.(answer)) },
	DescribeState:     func(s any) string { return s.(state).String() },
}).ToModel()

// String implements fmt.Stringer, for porcupine to describe a history with.
func (s state) String() string {
	return fmt.Sprintf("%d out (%s), last token %d", s.used, strings.TrimSpace(s.out), s.last)
}

func stepTake(s state, in request, out answer) []any {
	fits := s.used+in.weight <= in.limit
	switch {
	case out.outcome == history.OK && fits && out.token > s.last:
		return []any{s.with(in.id, in.weight, out.token)}
	case out.outcome == history.Busy && !fits && out.used == s.used:
		return []any{s}
	case out.outcome == history.Unknown && fits:
		return []any{s, s.with(in.id, in.weight, s.last)}
	case out.outcome == history.Unknown:
		return []any{s}
	}
	return nil
}

// stepLease ends a lease, or gives it its new id, if it has the old one. A client that
// gives a lease away does not learn the token that the lease gets by that.
func stepLease(s state, in request, out answer) []any {
	if !strings.Contains(" "+s.out, " "+in.id+" ") {
		if out.outcome == history.OK {
			return nil
		}
		return []any{s}
	}
	ended := s.without(in.id, in.weight)
	switch {
	case in.verb == history.Release:
		return []any{ended}
	case out.outcome == history.Unknown:
		return []any{s, ended.with(in.to, in.weight, s.last)}
	case out.outcome == history.OK && (out.token == 0 || out.token > s.last):
		return []any{ended.with(in.to, in.weight, max(s.last, out.token))}
	}
	return nil
}

func (s state) without(id string, weight int) state {
	out := strings.Replace(" "+s.out, " "+id+" ", " ", 1)
	return state{out[1:], s.used - weight, s.last}
}

// with adds a lease. It keeps the ids sorted, so that equal states compare equal.
func (s state) with(id string, weight int, token int64) state {
	all := append(strings.SplitAfter(s.out, " "), id+" ")
	slices.Sort(all)
	return state{strings.Join(all, ""), s.used + weight, token}
}

func describe(in request, out answer) string {
	s := fmt.Sprintf("%s %s %s (weight %d of %d): %s", in.verb, in.id, in.to, in.weight, in.limit, out.outcome)
	if out.token > 0 {
		s += fmt.Sprintf(" %d", out.token)
	}
	if out.outcome == history.Busy {
		s += fmt.Sprintf(", %d in use", out.used)
	}
	return s
}

// linear has porcupine check a history.
func (v *Verdict) linear(name string, ops []*Op, run *Run) {
	all, unknown := run.operations(ops)
	if unknown*mostUnknown > len(all) || len(all) > mostOps {
		v.Skipped++
		return
	}
	v.Histories++
	v.Checked += len(all)
	result, info := porcupine.CheckOperationsVerbose(permits, all, timeout)
	if result == porcupine.Ok {
		return
	}
	var html strings.Builder
	if err := porcupine.Visualize(permits, info, &html); err == nil {
		v.Pictures = append(v.Pictures, html.String())
	}
	v.add("linearizability", name, ops[0].Invoked, nil, "%d operations: porcupine says %s", len(all), result)
}

// operations translates a history into porcupine's operations and counts those whose
// outcome is unknown. A lease that was not released ends when it may have expired.
func (r *Run) operations(ops []*Op) ([]porcupine.Operation, int) {
	t := &translation{run: r, clients: map[[2]int]int{}}
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

// id is the id of o's lease in the model; a lease that was given away has its handle.
func (o *Op) id() string { return fmt.Sprintf("%d.%d", o.Proc, o.Op) }

// request adds o's request. If its outcome is unknown it may have happened at any
// time after its invocation, and what it got may have ended at any time: if it was
// refused after a repetition, by the time of its return.
func (t *translation) request(o *Op) {
	in := request{verb: history.Try, id: o.id()}
	if o.Verb == history.Adopt {
		in = request{verb: history.Adopt, id: o.Handle, to: o.id()}
	}
	switch {
	case o.Held():
		t.add(o, in, o.Invoked, o.Returned, answer{outcome: history.OK, token: o.Token})
	case o.Verb == history.Adopt && (o.Outcome == history.Gone && !o.late() || o.Outcome == history.Taken):
		t.add(o, in, o.Invoked, o.Returned, answer{outcome: history.Gone})
	case o.Outcome == history.Busy && !t.run.unheard(o):
		t.add(o, in, o.Invoked, o.Returned, answer{outcome: history.Busy, used: o.Used})
	case o.Outcome == history.Busy && o.Again:
		t.unknown++
		none, end := answer{outcome: history.Unknown}, request{verb: history.Release, id: o.id()}
		t.add(o, in, o.Invoked, o.Returned, none)
		t.add(o, end, o.Invoked, o.Returned, none)
		t.add(o, end, o.Returned+1, o.Returned+1, none)
	default:
		t.unknown++
		none := answer{outcome: history.Unknown}
		t.add(o, in, o.Invoked, history.Never, none)
		t.add(o, request{verb: history.Release, id: o.id()}, o.Invoked, history.Never, none)
	}
}

// late reports whether o may have adopted a lease with a request that got no answer,
// and have been told by its repetition, after the lease had expired, that it is gone.
func (o *Op) late() bool { return o.Returned.Sub(o.Invoked) >= o.TTL }

// end adds the end of o's lease.
func (t *translation) end(o *Op) {
	in, done, none := request{verb: history.Release, id: o.id()}, answer{outcome: history.OK}, answer{outcome: history.Unknown}
	rel := o.Released
	switch {
	case o.Given != "":
		t.add(o, request{verb: history.Detach, id: o.id(), to: o.Given}, rel.Invoked, rel.Returned, done)
		if t.run.adopter(o) == nil { // it expires after a whole TTL
			t.add(o, request{verb: history.Release, id: o.Given}, rel.Invoked.Add(o.TTL-2*time.Millisecond), rel.Returned.Add(2*o.TTL), none)
		}
	case rel.Outcome == history.OK:
		t.add(o, in, rel.Invoked, rel.Returned, done)
	case rel.Outcome == history.Gone:
		t.add(o, in, o.End(), rel.Returned, done)
	default:
		t.unknown++
		t.add(o, in, o.End(), max(o.Until, min(t.run.killed(o.Proc), t.run.End)).Add(2*o.TTL), none)
	}
}
