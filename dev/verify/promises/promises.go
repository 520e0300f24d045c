// Package promises decides whether a run kept the promises of docs/guarantees.md. It
// judges by what clients believed and were told, not by the state of Redis. Package judge
// judges limit, slots, tokens and order; here are the exceptions that faults make, and what
// holds in time.
//
// It combines three facts. An operation took place between its invocation and its
// return. A holder believes in its lease from the return of its request until it
// calls Release, or until the trust deadline that it saw. And a token is the time of
// its grant, in microseconds of the server's clock, which is this machine's unless
// the run steps it. So the order of all grants and the time of each are known,
// however late its client heard of it.
package promises

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
)

// Rules say by what a run is judged.
type Rules struct {
	Clock Clock
	Slack time.Duration // what a busy machine may add to a bound
	// Linear is the prefix of the names whose histories porcupine checks.
	Linear string
	// Queue is the name of a semaphore on which every weight is 1 and no client has
	// more than one user. There the liveness bounds can be computed.
	Queue string
	// Deaf is like Queue, but its clients lose messages, and nothing else.
	Deaf string
	// Line is the prefix of the names on each of which the users of one client wait in line.
	Line string
	// Slow is a name with room for all, whose clients hear everything so late, and nothing else
	// happens to them.
	Slow string
	Late time.Duration
	// Fair is like Queue, and its requests are for tenants.
	Fair string
	// Timed is the prefix of the names whose requests mostly wait for time to pass. No client has
	// more than one user there, and none that asks has a network that fails.
	Timed string
	// Shared is the name on which several users share a client, so that nothing
	// is known about places in line.
	Shared string
}

// Violation is a broken promise.
type Violation struct {
	Promise string // S1 to S7, R1, R1b, R2, R4, R5, T1 to T3, T6, L1 to L7, or linearizability
	Name    string
	Text    string
	At      history.Time
	Ops     []*Op
}

// String returns the promise, on which name it was broken, and how.
func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Promise, v.Name, v.Text) }

// Verdict is the judgement of a run, with counts of what it is based on.
type Verdict struct {
	Violations []Violation
	Grants     int
	Requests   int
	Unknown    int           // requests whose outcome is unknown
	Adopted    int           // leases that were given away and adopted
	TooLate    int           // requests for a lease that another client had adopted
	Checked    int           // operations that porcupine checked
	Histories  int           // and in how many histories
	Skipped    int           // histories with too many unknown outcomes
	Turns      int           // pairs of requests of one client judged by S4
	Tenants    int           // pairs of requests judged by T1 and T3
	Shares     int           // times in which two tenants wait, judged by T2
	Served     int           // requests judged by L6
	Healed     int           // semaphores that lacked one of their two keys at the end
	Pauses     int           // pauses in which nothing may be granted
	Timed      int           // requests, in line or refused, of which was judged when time let them in
	Windows    int           // windows of a rate judged by R1 and R4
	Pours      int           // grants of a bucket judged by R1b
	Fullest    float64       // what the fullest window, or the emptiest bucket, had of what it may have
	Settled    int           // settlements
	HandOffs   int           // releases judged by L1
	Free       time.Duration // for how long a permit was surely free where L2 and L3 are judged
	Measured   map[string]time.Duration
	Pictures   []string // histories that are not linearizable, as HTML that porcupine draws
}

// Judge judges a run.
func Judge(run *Run, rules Rules) *Verdict {
	v := &Verdict{Measured: map[string]time.Duration{}}
	names := map[string][]*Op{}
	for _, o := range run.Ops {
		names[o.Name] = append(names[o.Name], o)
		v.Requests++
		switch o.Outcome {
		case history.OK:
			v.Grants++
		case history.Unknown:
			v.Unknown++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		ops := names[name]
		v.tokens(name, ops, run, rules)
		v.limits(name, ops, run, rules)
		v.rates(name, ops, run, rules)
		v.settlements(name, ops)
		switch {
		case name == rules.Shared:
		case lined(ops):
			v.tenants(name, ops, run, rules)
		default:
			v.order(name, ops, run)
		}
		if rules.Line != "" && strings.HasPrefix(name, rules.Line) {
			v.turns(ops, run)
		}
		v.told(name, ops, run, rules)
		v.ended(name, ops, run)
		v.handles(name, ops, run)
		if rules.Clock.Known {
			v.pauses(name, ops, run, rules)
			if rules.Timed != "" && strings.HasPrefix(name, rules.Timed) {
				v.onTime(name, ops, run, rules)
			} else {
				v.refusals(ops, run)
			}
		}
		if rules.Linear != "" && strings.HasPrefix(name, rules.Linear) {
			v.linear(name, ops, run)
		}
	}
	v.liveness(names, run, rules)
	slices.SortStableFunc(v.Violations, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return v
}

// liveness judges bounds in time on the names where nothing else interferes.
func (v *Verdict) liveness(names map[string][]*Op, run *Run, rules Rules) {
	if queue := names[rules.Queue]; rules.Clock.Known && len(queue) > 0 {
		v.handOffs("L1", queue, run, rules)
		v.besideFree("L2", queue, run, rules)
		v.crashes(queue, run)
		v.heard("a grant was under way to its waiter", queue, run, rules)
	}
	if fair := names[rules.Fair]; rules.Clock.Known && len(fair) > 0 {
		v.handOffs("T6", fair, run, rules)
		v.besideFree("T6", fair, run, rules)
		v.shares(fair, run)
	}
	v.served(names[rules.Slow], run, rules)
	if rules.Clock.Known {
		v.heard("a grant was under way to its waiter, with lost messages", names[rules.Deaf], run, rules)
	}
}

func (v *Verdict) add(promise, name string, at history.Time, ops []*Op, format string, args ...any) {
	v.Violations = append(v.Violations, Violation{promise, name, fmt.Sprintf(format, args...), at, ops})
}

// measure keeps the longest duration of each kind.
func (v *Verdict) measure(what string, d time.Duration) {
	v.Measured[what] = max(v.Measured[what], d)
}

// Promises returns which promises were broken, each once.
func (v *Verdict) Promises() []string {
	all := map[string]bool{}
	for _, x := range v.Violations {
		all[x.Promise] = true
	}
	return slices.Sorted(maps.Keys(all))
}
