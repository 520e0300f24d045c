package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/verify/history"
)

// handles checks S5 for leases that were given away: of all who adopt one, with a
// handle that may have been delivered twice, one gets it; and who is told that
// somebody else was first, was not alone.
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
			// One that was told of a loss may have adopted it and have heard of that when
			// the lease had run out.
			rival := func(a *Op) bool {
				return a != o && a.Invoked < o.Returned && (a.Held() || a.Outcome == history.Unknown || a.Outcome == history.Gone)
			}
			if !slices.ContainsFunc(all, rival) {
				v.add("S5", name, o.Returned, []*Op{o}, "told that somebody else has adopted a lease, but nobody has")
			}
		}
	}
}

// once checks that nobody has adopted what o had adopted before, unless the server
// may have forgotten that meanwhile.
func (v *Verdict) once(name string, o *Op, all []*Op, run *Run) {
	for _, a := range all {
		if a.Held() && cmp.Or(cmp.Compare(a.Token, o.Token), cmp.Compare(a.Invoked, o.Invoked)) < 0 && !run.broken(a.Invoked, o.Returned) {
			v.add("S5", name, o.Returned, []*Op{a, o}, "a lease was adopted twice, %v apart", o.Returned.Sub(a.Returned))
			return
		}
	}
}

// ended checks S6 the other way round: nobody ends a lease of these runs but its
// holder, so who is told of a loss before its trust deadline was told a lie, unless
// the server may have forgotten the lease, or its holder does not know whether it has
// given it away.
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
