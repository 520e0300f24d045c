package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/berth-go/berth/verify/history"
)

const (
	mostOps     = 1000 // of one history
	mostUnknown = 20   // one in so many may have an unknown outcome
	patience    = 20 * time.Second
)

// Picture is a history that is not linearizable, as porcupine draws it.
type Picture struct {
	Name string
	HTML string
}

// request is an input of the model, answer its output.
type request struct {
	take   bool // else it gives the lease back, or the lease runs out
	id     int  // of the lease
	weight int
	limit  int
}

type answer struct {
	outcome history.Outcome
	token   int64
	used    int
}

// state is the model's: which leases are out, by id, and the last token.
type state struct {
	out  string // "id:weight " for each, in order of id
	used int
	last int64
}

// permits is the model of a semaphore without waiters. A request that got a
// permit takes it only if there is room, with a larger token than all before; one
// that was refused sees all permits in use that are in use. What became of an
// unknown one is open: it took a permit if there was room, or nothing.
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
	mark := fmt.Sprintf("%d:%d ", in.id, in.weight)
	if !in.take {
		if s.has(mark) {
			return []any{s.without(mark, in.weight)}
		}
		if out.outcome == history.OK {
			return nil
		}
		return []any{s}
	}
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

func (s state) has(mark string) bool { return strings.Contains(" "+s.out, " "+mark) }

func (s state) without(mark string, weight int) state {
	out := strings.TrimPrefix(strings.Replace(" "+s.out, " "+mark, " ", 1), " ")
	return state{out, s.used - weight, s.last}
}

// with keeps the marks in order, so that equal states are equal.
func (s state) with(mark string, weight int, token int64) state {
	all := append(strings.SplitAfter(s.out, " "), mark)
	slices.Sort(all)
	return state{strings.Join(all, ""), s.used + weight, token}
}

func describe(in request, out answer) string {
	if !in.take {
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

// linear gives every history of a Linear name to porcupine.
func (v *Verdict) linear(names map[string][]*Op, run *Run, rules Rules) {
	model := permits.ToModel()
	for _, name := range sorted(names) {
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
		result, info := porcupine.CheckOperationsVerbose(model, ops, patience)
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

// operations puts a history into porcupine's form: a lease that was not given
// back ends by itself, when that is possible.
func (r *Run) operations(ops []*Op) (all []porcupine.Operation, unknown int) {
	lanes := map[[2]int]int{}
	add := func(o *Op, in request, call, ret history.Time, out answer) {
		who := [2]int{o.Proc, o.Seat}
		if _, ok := lanes[who]; !ok {
			lanes[who] = len(lanes)
		}
		all = append(all, porcupine.Operation{ClientId: lanes[who], Input: in, Output: out, Call: int64(call), Return: int64(ret)})
	}
	for i, o := range ops {
		in := request{take: true, id: i, weight: o.Weight, limit: o.Limit}
		back := request{id: i, weight: o.Weight}
		none := answer{outcome: history.Unknown}
		switch {
		case o.Held():
			add(o, in, o.Invoked, o.Returned, answer{outcome: history.OK, token: o.Token})
			rel := o.Released
			dead := r.killed(o.Proc)
			switch rel.Outcome {
			case history.OK:
				add(o, back, rel.Invoked, rel.Returned, answer{outcome: history.OK})
			case history.Gone:
				add(o, back, min(rel.Invoked, o.Until), rel.Returned, answer{outcome: history.OK})
			default:
				unknown++
				add(o, back, min(rel.Invoked, o.Until), max(o.Until, min(dead, r.End)).Add(2*o.TTL), none)
			}
		case o.Outcome == history.Busy && !r.unheard(o):
			add(o, in, o.Invoked, o.Returned, answer{outcome: history.Busy, used: o.Used})
		default:
			unknown++
			add(o, in, o.Invoked, history.Never, none)
			add(o, back, o.Invoked, history.Never, none)
		}
	}
	return all, unknown
}
