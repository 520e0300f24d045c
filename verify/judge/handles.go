package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/verify/history"
)

// handles checks S5 for leases that were given away. A handle may be delivered
// twice, but only one client adopts its lease; and a client that is told that
// another one was first had such a rival.
func (v *Verdict) handles(name string, ops []*Op, run *Run) {
	for _, o := range ops {
		if o.Verb != history.Adopt {
			continue
		}
		all := run.Adopted[o.Handle]
		if o.Held() {
			v.Adopted++
			v.once(name, o, all, run)
		}
		if o.Outcome == history.Taken {
			v.TooLate++
			// A client that was told of a loss may have adopted the lease with a request
			// whose answer came only after the lease had expired.
			rival := func(a *Op) bool {
				return a != o && a.Invoked < o.Returned && (a.Held() || a.Outcome == history.Unknown || a.Outcome == history.Gone)
			}
			if !slices.ContainsFunc(all, rival) {
				v.add("S5", name, o.Returned, []*Op{o}, "told that somebody else has adopted a lease, but nobody has")
			}
		}
	}
}

// once checks that o's lease had not been adopted before, unless the server may have
// forgotten that since.
func (v *Verdict) once(name string, o *Op, all []*Op, run *Run) {
	for _, a := range all {
		if a.Held() && cmp.Or(cmp.Compare(a.Token, o.Token), cmp.Compare(a.Invoked, o.Invoked)) < 0 && !run.broken(a.Invoked, o.Returned) {
			v.add("S5", name, o.Returned, []*Op{a, o}, "a lease was adopted twice, %v apart", o.Returned.Sub(a.Returned))
			return
		}
	}
}

// ended checks S6 the other way round: a holder is not told of a loss that did not
// happen. In these runs only its holder ends a lease, so a report of a loss before
// the trust deadline is wrong, unless the server may have forgotten the lease or the
// outcome of a Detach is unknown.
func (v *Verdict) ended(name string, ops []*Op, run *Run) {
	for _, o := range grants(ops) {
		if d := o.Released; d.Verb == history.Detach && d.Invoked < o.Lost && d.Outcome == history.Unknown {
			continue
		}
		if early := o.Until.Sub(o.Lost); o.Lost != history.Never && early > time.Millisecond && !run.broken(o.Invoked, o.Lost) {
			v.add("S6", name, o.Lost, []*Op{o}, "its holder was told of a loss %v before its trust deadline", early)
		}
	}
}
