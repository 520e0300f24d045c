package promises

import (
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// budget is what may have been spent of the rates of one unit that are windows, or of those that are
// buckets: no set has two of either.
type budget interface {
	// full returns until when, or until its end if that is earlier, there may have been no room for w,
	// and the promise of what was over then, "" for that of all rates.
	full(w *Op, end history.Time) (history.Time, string)
}

// budgets returns those of a semaphore, by unit.
func (r *Run) budgets(ops []*Op, tolerance time.Duration) (all []budget) {
	rates := declared(ops)
	for len(rates) > 0 {
		n := 1
		for n < len(rates) && sameKind(rates[n], rates[0]) {
			n++
		}
		if rates[0].Burst > 0 {
			all = append(all, r.newBucket(rates[:n], ops))
		} else {
			all = append(all, r.newWindow(rates[:n], ops, tolerance))
		}
		rates = rates[n:]
	}
	return all
}

// sameKind reports whether two rates are of one unit, and both windows or both buckets.
func sameKind(a, b protocol.Rate) bool { return a.Unit == b.Unit && (a.Burst > 0) == (b.Burst > 0) }

// hidden returns when a grant of o of which nobody heard may have been made: at any time while o had a
// place in line; false: there was none.
func (r *Run) hidden(o *Op) (when span, ok bool) {
	switch {
	case o.Verb == history.Adopt || !r.unheard(o):
		return span{}, false
	case o.Held():
		return span{o.Invoked, o.Granted}, true
	case r.gaveUp(o):
		return span{o.Returned.Add(-history.Late), o.Returned}, true
	default:
		return span{o.Invoked, r.ended(o).Add(heartbeat(o))}, true
	}
}

// settled returns when what was said last of a lease surely counts: when it has been given back, or as
// soon as the server was told, if nothing was in the way; Never.
func (r *Run) settled(c charge) history.Time {
	said := c.says[len(c.says)-1].at
	quiet := !r.struck(said.Add(-afterFault), said.Add(2*history.Late), func(f history.Event) bool { return touches(f, c.Op) })
	if len(c.says) > 1 && quiet && min(c.End(), c.Lost) > said.Add(2*history.Late) {
		return min(c.done, said.Add(history.Late))
	}
	return c.done
}

// told returns when the server has surely heard what was said last of a lease, if it has at all.
func (r *Run) told(c charge) history.Time { return min(r.settled(c), r.possession(c.Op).to) }
