// Package history defines what the processes of a run record: one line of JSON for
// each event, with the time of the machine's monotonic clock, which all processes
// share.
package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/internal/protocol"
)

// Time is nanoseconds of the machine's monotonic clock.
type Time int64

// Never is later than every Time.
const Never Time = 1<<63 - 1

// Late is how much later than planned a process may do something on a machine that has time for
// it. More is recorded as a fault.
const Late = 250 * time.Millisecond

// StoodStill is the name of that fault.
const StoodStill = "client stood still"

// Add returns the time d later.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns how much later t is than u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Of returns t, which has a monotonic reading, as a Time. If the process is
// suspended during the call, the result is early, never late.
func Of(t time.Time) Time {
	return Now().Add(time.Until(t))
}

// Now returns the present time.
func Now() Time { return read(unix.CLOCK_MONOTONIC) }

// Wall returns the time of day and the present time, read as close together as
// possible.
func Wall() (wall time.Duration, at Time) {
	best := time.Duration(Never)
	for range 20 {
		before := Now()
		w := read(unix.CLOCK_REALTIME)
		after := Now()
		if d := after.Sub(before); d < best {
			best, wall, at = d, time.Duration(w), before+(after-before)/2
		}
	}
	return wall, at
}

func read(clock int32) Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(clock, &ts); err != nil {
		panic(err)
	}
	return Time(ts.Nano())
}

// Kind says what an event is.
type Kind string

// The kinds. Every operation begins with Invoke, written before anything is
// sent, and ends with Return; one that never returns was cut short with its
// process.
const (
	Invoke Kind = "invoke"
	Queued Kind = "queued" // the request is in line
	Return Kind = "return"
	Trust  Kind = "trust" // the trust deadline as the holder just saw it: Until
	Lost   Kind = "lost"  // the lease's context ended with ErrLost
	Fault  Kind = "fault" // something was wrong from At to Until
	// What goes on beside the requests is written at At and, with an Until, at its end.
	Ping  Kind = "ping"  // a plain command
	Pause Kind = "pause" // a call that stops all grants of a name for the time Lasts
)

// Verb is an operation.
type Verb string

// The operations. A Drop says that a holder waited until its lease could no longer
// be trusted and left it unreleased. A Detach gives a lease away, an Adopt asks for
// such a lease. A Settle says what a lease has cost.
const (
	Try     Verb = "try"
	Acquire Verb = "acquire"
	Adopt   Verb = "adopt"
	Release Verb = "release"
	Detach  Verb = "detach"
	Drop    Verb = "drop"
	Settle  Verb = "settle"
)

// Outcome is how an operation ended.
type Outcome string

// The outcomes. An operation whose outcome is unknown may have happened, or may
// still happen later.
const (
	OK      Outcome = "ok"
	Busy    Outcome = "busy"
	Gone    Outcome = "lost"    // a release came too late; there is nothing to adopt
	Taken   Outcome = "taken"   // another client has adopted it
	Refused Outcome = "refused" // it did not happen
	Unknown Outcome = "unknown"
)

// Event is one line of a history.
type Event struct {
	At   Time `json:"at"`
	Proc int  `json:"proc"` // 0: the storm itself
	Op   int  `json:"op,omitempty"`
	Kind Kind `json:"kind"`

	Verb   Verb          `json:"verb,omitempty"`
	Name   string        `json:"name,omitempty"`
	Seat   int           `json:"seat,omitempty"`
	Limit  int           `json:"limit,omitempty"`
	Weight int           `json:"weight,omitempty"`
	TTL    time.Duration `json:"ttl,omitempty"`
	// Rates are those that a request declares, Costs what it says that it costs, or what a Settle says
	// that a lease has cost; both as the script writes them.
	Rates   protocol.Rates `json:"rates,omitempty"`
	Costs   protocol.Costs `json:"costs,omitempty"`
	Tenant  string         `json:"tenant,omitempty"`  // for whom it is
	MaxHold time.Duration  `json:"maxhold,omitempty"` // of the lease; 0: none
	Lasts   time.Duration  `json:"lasts,omitempty"`
	Lease   int            `json:"lease,omitempty"`
	Outcome Outcome        `json:"outcome,omitempty"`
	ID      string         `json:"id,omitempty"`
	Token   int64          `json:"token,omitempty"`
	Slot    int            `json:"slot,omitempty"`
	Used    int            `json:"used,omitempty"`   // busy: permits out
	Again   bool           `json:"again,omitempty"`  // ok: the request may have got a second id; busy: it was repeated, and its client closed before At
	Handle  string         `json:"handle,omitempty"` // argument of an Adopt, result of a Detach
	Until   Time           `json:"until,omitempty"`
	Text    string         `json:"text,omitempty"`
	Answers int            `json:"answers,omitempty"` // of a ping: how many the server has to give, one after the other

	// The rest describes a fault.
	Target int  `json:"target,omitempty"` // the process that was struck; 0: the server
	Breaks bool `json:"breaks,omitempty"` // it breaks an assumption: earlier leases may be forgotten
	Surely bool `json:"surely,omitempty"` // and they are
	Queues bool `json:"queues,omitempty"` // waiters are forgotten, leases are not
	Steps  bool `json:"steps,omitempty"`  // it steps the server's clock, which tokens follow
	// Behind is how far the stepped clock is behind what it has shown before: for so long, tokens
	// only count up.
	Behind time.Duration `json:"behind,omitempty"`
}

// Writer appends events to a file, each with one write(2), so that they survive a
// SIGKILL of the process.
type Writer struct {
	proc int
	file *os.File
	ops  atomic.Int64
}

// NewWriter returns the writer of process proc.
func NewWriter(path string, proc int) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &Writer{proc: proc, file: f}, err
}

// Op returns a number for a new operation of this process.
func (w *Writer) Op() int { return int(w.ops.Add(1)) }

// Write appends e, with the present time if e has none. A history with a gap would
// be judged wrongly, so a failure ends the process.
func (w *Writer) Write(e Event) {
	e.Proc = w.proc
	if e.At == 0 {
		e.At = Now()
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = w.file.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "history:", err)
		os.Exit(1)
	}
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

// Read returns the events of a file. It ignores an incomplete last line, whose
// process was killed while writing it.
func Read(path string) ([]Event, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Event
	for line := range bytes.Lines(text) {
		var e Event
		err := json.Unmarshal(line, &e)
		switch {
		case err == nil:
			all = append(all, e)
		case bytes.HasSuffix(line, []byte("\n")):
			return nil, fmt.Errorf("%s: line %d: %w", path, len(all)+1, err)
		}
	}
	return all, nil
}
