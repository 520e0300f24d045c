package promises

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// Op is one request for permits, and the lease that came of it.
type Op struct {
	// Its return or, without one, its invocation. Until is the latest trust deadline that
	// the holder saw.
	history.Event

	Invoked  history.Time
	Queued   history.Time // when its client knew that it is in line; 0: never
	Returned history.Time // Never: its process ended first

	// The rest describes its lease.
	Granted  history.Time // by the server's clock; 0 where that cannot be known
	Lost     history.Time // when its holder was told; Never
	Dropped  history.Time // when its holder left it, because it had ended; Never
	Released Call         // its release, or Detach; Invoked is Never when there was none
	Given    string       // the handle with which it was given away; "" if it was not
	Settled  []Settlement // what its holder has said that it cost, in the order in which it did
}

// Settlement is what a holder has said, once, that its lease has cost.
type Settlement struct {
	At       history.Time // before it said so
	Costs    protocol.Costs
	Accepted bool // it was told that it is
	Refused  bool // it was told that it cannot; else, if it was killed before, neither
}

// Call is a release, or a Detach.
type Call struct {
	Verb              history.Verb
	Invoked, Returned history.Time
	Outcome           history.Outcome
}

var noCall = Call{Invoked: history.Never, Returned: history.Never, Outcome: history.Unknown}

// Held reports whether the request was granted, as far as its client knows.
func (o *Op) Held() bool { return o.Outcome == history.OK }

// End returns when the holder stopped believing in the lease.
func (o *Op) End() history.Time { return min(o.Released.Invoked, o.Until) }

func granted(o *Op) history.Time  { return o.Granted }
func returned(o *Op) history.Time { return o.Returned }

// sorted returns the operations in the order of a time.
func sorted(ops []*Op, at func(*Op) history.Time) []*Op {
	return slices.SortedFunc(slices.Values(ops), func(a, b *Op) int { return cmp.Compare(at(a), at(b)) })
}

// grants returns the requests that were granted.
func grants(ops []*Op) []*Op {
	return slices.DeleteFunc(slices.Clone(ops), func(o *Op) bool { return !o.Held() })
}

// fresh returns the requests that were granted permits that nobody had.
func fresh(ops []*Op) []*Op {
	return slices.DeleteFunc(grants(ops), func(o *Op) bool { return o.Verb == history.Adopt })
}

// Run is the history of a run.
type Run struct {
	Ops     []*Op            // in the order of their invocations
	Faults  []history.Event  // the Target of each is the process that it struck; 0: all
	Pings   []history.Event  // plain commands of clients that hear everything late; the Until of some is Never
	Pauses  []history.Event  // calls that stop all grants of a name; so is theirs
	End     history.Time     // when the storm was over and the clients were told to stop
	Adopted map[string][]*Op // the Adopts of each handle, in order of their beginning
}

// Clock turns a token into the time of its grant.
type Clock struct {
	Known bool // false: the server's clock is not this machine's
	// The time of day and the monotonic clock at the beginning and the end of the
	// run. The time of day may be slewed, so the two may run at different speeds.
	Wall [2]time.Duration
	At   [2]history.Time
	// Tolerance is the largest error of the result.
	Tolerance time.Duration
}

// NewClock returns the clock of a run that began and ended at these readings.
func NewClock(wall [2]time.Duration, at [2]history.Time) Clock {
	slew := (wall[1] - wall[0]) - at[1].Sub(at[0])
	return Clock{Known: true, Wall: wall, At: at, Tolerance: 500*time.Microsecond + slew.Abs()/10}
}

func (c Clock) at(token int64) history.Time {
	if !c.Known {
		return 0
	}
	since := time.Duration(token)*time.Microsecond - c.Wall[0]
	rate := float64(c.At[1]-c.At[0]) / float64(c.Wall[1]-c.Wall[0])
	return c.At[0].Add(since + time.Duration(float64(since)*(rate-1)))
}

// Assemble makes a run of the events of all processes.
func Assemble(events []history.Event, clock Clock) *Run {
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	type key struct{ proc, op int }
	run, ops := &Run{Adopted: map[string][]*Op{}}, map[key]*Op{}
	for _, e := range events {
		o := ops[key{e.Proc, cmp.Or(e.Lease, e.Op)}]
		switch {
		case e.Kind == history.Fault:
			e.Target, e.Until = cmp.Or(e.Proc, e.Target), max(e.Until, e.At)
			run.Faults = append(run.Faults, e)
		case e.Kind == history.Ping:
			run.Pings = beside(run.Pings, e)
		case e.Kind == history.Pause:
			run.Pauses = beside(run.Pauses, e)
		case e.Kind == history.Invoke && e.Lease == 0:
			o = &Op{Event: e, Invoked: e.At, Returned: history.Never, Lost: history.Never, Dropped: history.Never, Released: noCall}
			o.Outcome = history.Unknown
			ops[key{e.Proc, e.Op}] = o
			run.Ops = append(run.Ops, o)
			if e.Verb == history.Adopt {
				run.Adopted[e.Handle] = append(run.Adopted[e.Handle], o)
			}
		case o != nil:
			o.learn(e, clock)
		}
	}
	return run
}

// beside adds to all what has begun beside the requests, or what its end says.
func beside(all []history.Event, e history.Event) []history.Event {
	if e.Until == 0 {
		e.Until = history.Never
	}
	for i := len(all) - 1; i >= 0 && all[i].At == e.At; i-- {
		if all[i].Proc == e.Proc {
			all[i] = e
			return all
		}
	}
	return append(all, e)
}

// learn adds what a later event says about the request or its lease.
func (o *Op) learn(e history.Event, clock Clock) {
	switch {
	case e.Kind == history.Queued:
		o.Queued = e.At
	case e.Kind == history.Trust:
		o.Until = max(o.Until, e.Until)
	case e.Kind == history.Lost:
		o.Lost = min(o.Lost, e.At)
	case e.Lease == 0: // its return
		o.Event, o.Returned = e, e.At
		if o.Held() {
			o.Granted = clock.at(e.Token)
		}
	case e.Verb == history.Settle && e.Kind == history.Invoke:
		o.Settled = append(o.Settled, Settlement{At: e.At, Costs: e.Costs})
	case e.Verb == history.Settle:
		s := &o.Settled[len(o.Settled)-1]
		s.Accepted, s.Refused = e.Outcome == history.OK, e.Outcome != history.OK
	case e.Verb == history.Drop:
		o.Dropped = e.At
	case e.Kind == history.Invoke:
		o.Released.Verb, o.Released.Invoked = e.Verb, e.At
	case e.Verb == history.Detach && e.Outcome == history.Refused: // it is held as before
		o.Released = noCall
	default:
		o.Released.Returned, o.Released.Outcome, o.Given = e.At, e.Outcome, e.Handle
	}
}

// adopter returns the request that adopted o's lease, which was given away, or nil if
// none is known.
func (r *Run) adopter(o *Op) *Op {
	for _, a := range r.Adopted[o.Given] {
		if o.Given != "" && a.Held() {
			return a
		}
	}
	return nil
}

// The storm's names for the SIGKILL and the SIGSTOP of a client.
const (
	Killed    = "client SIGKILL"
	Suspended = "client SIGSTOP"
)

// killed returns when a process was killed, or Never.
func (r *Run) killed(proc int) history.Time {
	for _, f := range r.Faults {
		if f.Text == Killed && f.Target == proc {
			return f.At
		}
	}
	return history.Never
}

// ended returns when o's client was done with it: it returned, or was killed. After the end of the
// storm its requests go on until they return, and may declare and get what they ask for.
func (r *Run) ended(o *Op) history.Time { return r.over(o.Proc, o.Invoked, o.Returned) }

// over is ended of a call of a process.
func (r *Run) over(proc int, invoked, returned history.Time) history.Time {
	if end := min(returned, r.killed(proc)); end != history.Never {
		return end
	}
	return max(r.End, invoked)
}

// struck reports whether one of the chosen faults was under way between from and to.
func (r *Run) struck(from, to history.Time, choose func(history.Event) bool) bool {
	return slices.ContainsFunc(r.Faults, func(f history.Event) bool { return choose(f) && span{f.At, f.Until}.overlaps(from, to) })
}

// touches reports whether a fault struck o's process and semaphore.
func touches(f history.Event, o *Op) bool {
	return (f.Target == 0 || f.Target == o.Proc) && (f.Name == "" || f.Name == o.Name)
}

// breaks and steps choose faults that break an assumption, or step the server's clock.
func breaks(f history.Event) bool { return f.Breaks }
func steps(f history.Event) bool  { return f.Steps }

// broken reports whether an assumption was broken between from and to.
func (r *Run) broken(from, to history.Time) bool { return r.struck(from, to, breaks) }
