package judge

import (
	"slices"
	"time"

	"github.com/berth-go/berth/verify/history"
)

// Op is one request for permits, and the lease that came of it.
type Op struct {
	Proc, Seat, N int
	Verb          history.Verb
	Name          string
	Limit, Weight int
	TTL           time.Duration
	Invoked       history.Time
	Queued        history.Time // when its client knew that it is in line; 0: never
	Returned      history.Time // Never: its process ended first
	Outcome       history.Outcome
	Used          int // busy: permits out
	Again         bool
	Handle        string // what an Adopt was given

	// The rest describes its lease.
	ID       string
	Token    int64
	Slot     int
	Granted  history.Time // by the server's clock; 0 where that cannot be known
	Until    history.Time // latest trust deadline that its holder saw
	Lost     history.Time // when its holder was told; Never
	Dropped  history.Time // when its holder left it, because it had ended; Never
	Released Call         // its release, or Detach; Invoked is Never when there was none
	Given    string       // the handle with which it was given away; "" if it was not
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

// Window is a time in which something was wrong.
type Window struct {
	From, To history.Time
	Proc     int    // the process that it struck; 0: all
	Name     string // the semaphore that it struck; "": all
	What     string
	Breaks   bool // it breaks an assumption of guarantees.md: leases may be forgotten
	Surely   bool // and they are
	Queues   bool // waiters may be forgotten, leases are not
	Steps    bool // the server's clock was stepped, back or forward
	Kill     bool // Proc was killed at From
}

// touches reports whether it struck o's process and semaphore.
func (w *Window) touches(o *Op) bool {
	return (w.Proc == 0 || w.Proc == o.Proc) && (w.Name == "" || w.Name == o.Name)
}

// Run is the history of a run.
type Run struct {
	Ops     []*Op
	Windows []Window
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
	c := Clock{Known: true, Wall: wall, At: at}
	slew := (wall[1] - wall[0]) - at[1].Sub(at[0])
	c.Tolerance = 500*time.Microsecond + slew.Abs()/10
	return c
}

func (c Clock) at(token int64) history.Time {
	if !c.Known {
		return 0
	}
	since := time.Duration(token)*time.Microsecond - c.Wall[0]
	rate := float64(c.At[1]-c.At[0]) / float64(c.Wall[1]-c.Wall[0])
	return c.At[0].Add(since + time.Duration(float64(since)*(rate-1)))
}

// key names an operation in a run.
type key struct{ proc, op int }

// Assemble makes a run of the events of all processes.
func Assemble(events []history.Event, clock Clock) *Run {
	slices.SortStableFunc(events, func(a, b history.Event) int { return int(a.At - b.At) })
	run, ops := &Run{Adopted: map[string][]*Op{}}, map[key]*Op{}
	for _, e := range events {
		if e.Kind == history.Fault {
			run.Windows = append(run.Windows, window(e))
			continue
		}
		o := ops[key{e.Proc, e.Op}]
		if e.Lease != 0 {
			if o = ops[key{e.Proc, e.Lease}]; o != nil {
				o.lease(e)
			}
			continue
		}
		if e.Kind == history.Invoke {
			o = &Op{
				Proc: e.Proc, Seat: e.Seat, N: e.Op, Verb: e.Verb, Name: e.Name, Limit: e.Limit, Weight: e.Weight,
				TTL: time.Duration(e.TTL) * time.Millisecond, Invoked: e.At, Returned: history.Never, Outcome: history.Unknown,
				Handle: e.Handle, Lost: history.Never, Dropped: history.Never, Released: noCall,
			}
			ops[key{e.Proc, e.Op}] = o
			run.Ops = append(run.Ops, o)
			if e.Verb == history.Adopt {
				run.Adopted[e.Handle] = append(run.Adopted[e.Handle], o)
			}
		}
		if o != nil {
			o.request(e, clock)
		}
	}
	return run
}

func window(e history.Event) Window {
	w := Window{
		From: e.At, To: max(e.Until, e.At), Proc: e.Target, Name: e.Name, What: e.Text,
		Breaks: e.Breaks, Surely: e.Surely, Queues: e.Queues, Steps: e.Steps, Kill: e.Text == Killed,
	}
	if e.Proc != 0 {
		w.Proc = e.Proc
	}
	return w
}

// Killed is the storm's name for the SIGKILL of a client.
const Killed = "client SIGKILL"

func (o *Op) request(e history.Event, clock Clock) {
	switch e.Kind {
	case history.Queued:
		o.Queued = e.At
	case history.Return:
		o.Returned, o.Outcome, o.Used, o.Again = e.At, e.Outcome, e.Used, e.Again
		if o.Held() {
			o.ID, o.Token, o.Slot, o.Until = e.ID, e.Token, e.Slot, e.Until
			o.Granted = clock.at(e.Token)
		}
	}
}

func (o *Op) lease(e history.Event) {
	switch {
	case e.Kind == history.Trust:
		o.Until = max(o.Until, e.Until)
	case e.Kind == history.Lost:
		o.Lost = min(o.Lost, e.At)
	case e.Verb == history.Drop:
		o.Dropped = e.At
	case e.Kind == history.Invoke:
		o.Released.Verb, o.Released.Invoked = e.Verb, e.At
	case e.Verb == history.Detach && e.Outcome == history.Refused: // it is held as before
		o.Released = noCall
	case e.Kind == history.Return:
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

// byName groups the operations by the name of their semaphore.
func (r *Run) byName() map[string][]*Op {
	names := map[string][]*Op{}
	for _, o := range r.Ops {
		names[o.Name] = append(names[o.Name], o)
	}
	return names
}

// killed returns when a process was killed, or Never.
func (r *Run) killed(proc int) history.Time {
	for _, w := range r.Windows {
		if w.Kill && w.Proc == proc {
			return w.From
		}
	}
	return history.Never
}
