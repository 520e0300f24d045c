// Package judge decides whether a run kept the promises of docs/guarantees.md:
// from what clients believed and were told, not from what Redis says.
//
// Three sources of truth are combined. Invocations and returns bound when an
// operation took place. A holder believes in its lease from the return of its
// request until it calls Release, or until the trust deadline that it saw. And a
// token is the time of its grant, in microseconds of the server's clock, which is
// this machine's unless the run steps it: so the order and the very moment of
// every grant are known, however late its client heard of it.
package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-go/berth/verify/history"
)

// Rules say what a run is to be held to.
type Rules struct {
	Clock Clock
	Slack time.Duration // what a busy machine may add to a bound
	// Linear: the histories of names that begin with this are given to porcupine.
	Linear string
	// Queue is the name of a semaphore on which every weight is 1 and every client
	// is one user's: there the liveness bounds can be computed.
	Queue string
	// Deaf is the same with clients to whom messages are lost, and nothing else.
	Deaf string
	// Shared is the name on which several users share a client, so that nothing
	// is known about places in line.
	Shared string
}

// Violation is a broken promise.
type Violation struct {
	Promise string // S1 to S7, L1 to L5, or linearizability
	Name    string
	Text    string
	At      history.Time
	Ops     []*Op
}

// String returns the promise, on which name it was broken, and how.
func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Promise, v.Name, v.Text) }

// Verdict is what came of it.
type Verdict struct {
	Violations []Violation
	Grants     int
	Requests   int
	Unknown    int           // requests without a verdict
	Adopted    int           // leases that were given away and adopted
	TooLate    int           // requests for a lease that somebody else had adopted
	Checked    int           // operations that porcupine looked at
	Histories  int           // and in how many histories
	Skipped    int           // histories with too many unknown outcomes
	Healed     int           // semaphores of which one key of two was lost, at the end
	HandOffs   int           // releases judged by L1
	Free       time.Duration // for how long a permit was surely free, while L2 and L3 watched
	Measured   map[string]time.Duration
	Pictures   []Picture
}

// Judge judges a run.
func Judge(run *Run, rules Rules) *Verdict {
	v := &Verdict{Measured: map[string]time.Duration{}}
	for _, o := range run.Ops {
		v.Requests++
		switch o.Outcome {
		case history.OK:
			v.Grants++
		case history.Unknown:
			v.Unknown++
		}
	}
	names := run.byName()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		ops := names[name]
		v.tokens(name, ops, run, rules)
		v.limits(name, ops, run, rules)
		if name != rules.Shared {
			v.order(name, ops, run)
		}
		v.told(name, ops, run, rules)
		v.ended(name, ops, run)
		v.handles(name, ops, run)
		if rules.Clock.Known {
			v.refusals(ops, run)
		}
	}
	if rules.Clock.Known {
		v.liveness(names[rules.Queue], run, rules)
		v.heard("a grant was under way to its waiter, with lost messages", names[rules.Deaf], run, rules)
	}
	v.linear(names, run, rules)
	slices.SortStableFunc(v.Violations, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return v
}

func (v *Verdict) add(promise, name string, at history.Time, ops []*Op, format string, args ...any) {
	v.Violations = append(v.Violations, Violation{promise, name, fmt.Sprintf(format, args...), at, ops})
}

// measure keeps the longest of each kind.
func (v *Verdict) measure(what string, d time.Duration) {
	v.Measured[what] = max(v.Measured[what], d)
}

// Promises returns which promises were broken, each once.
func (v *Verdict) Promises() []string {
	var all []string
	for _, x := range v.Violations {
		all = append(all, x.Promise)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
