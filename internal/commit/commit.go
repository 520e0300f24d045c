// Package commit implements group commit: a semaphore has at most one call to Redis in
// flight. Operations that come meanwhile gather, and the next call carries them all; when
// no call is in flight, an operation is sent at once. After a call that failed, its
// operations are tried again, with growing pauses, in the order in which their owners came.
//
// A Queue does nothing by itself: its owner makes the calls and holds the lock.
package commit

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

const (
	// mostIDs bounds the ids of one call, so that it takes the server about a millisecond.
	mostIDs = protocol.MaxIDs
	// A call is given up when its operations ask for that, but not before leastTimeout; an
	// empty one after emptyTimeout. Then another one starts, on another connection, and the
	// outcome of the first is unknown until its answer comes, late.
	emptyTimeout = 2 * time.Second
	leastTimeout = 100 * time.Millisecond
	// Pauses between failing calls grow from the first to the second.
	leastPause = 10 * time.Millisecond
	mostPause  = time.Second
	// mostHanging bounds the calls that were given up and have no outcome yet: a client without
	// time-outs may never return.
	mostHanging = 8
)

// Queue gathers operations; T is the type of their owners. The zero value is empty.
type Queue[T any] struct {
	// Took is how long the last answer took, as its owner has told; 0: there was none. A call has more
	// time than that.
	Took time.Duration

	line      []*Op[T] // what waits: releases first, for they free what the others want, and each in the order of owners
	came      uint64   // owners so far
	probe     bool     // a call is wanted, even an empty one
	call      *Call[T]
	giveUpAt  clock.Instant // the call in flight: its Deadline, or earlier for what waits behind it
	spare     *Call[T]
	overtaken bool // see AnsweredLate
	hanging   int  // calls that were given up, and have no outcome
	stopped   bool // nothing more is sent

	err     error         // of the last call
	pause   time.Duration // after the next failure
	retryAt clock.Instant
}

// Op is the place of one owner in a queue: at most one operation of it is under way.
type Op[T any] struct {
	Of     T
	Shared bool // its operation is on an id on which others may have one, too

	state   state
	release bool   // queued: it frees something
	came    uint64 // its place among the owners; 0: it has asked for nothing yet
	again   bool   // in flight, and to be sent once more
}

type state uint8

const (
	idle state = iota
	queued
	inFlight
)

// compare orders the line. What a call that failed carried has its place before what came meanwhile:
// else an outage would turn the order of this process's requests.
func compare[T any](a, b *Op[T]) int {
	switch {
	case a.release == b.release:
		return cmp.Compare(a.came, b.came)
	case a.release:
		return -1
	default:
		return 1
	}
}

// Call is one call to Redis.
type Call[T any] struct {
	Ops      []*Op[T]
	Wire     []protocol.Op // of Ops, in their order
	Sent     clock.Instant
	Deadline clock.Instant // when it is given up at the latest

	ids   int  // that Wire names
	hangs bool // it was given up, and has no outcome
}

// Put makes the next call send the operation of op; if op is in flight, the call after
// that. release tells that the operation frees something.
func (q *Queue[T]) Put(op *Op[T], release bool) {
	switch op.state {
	case inFlight:
		op.again = true
		return
	case queued:
		if !release || op.release {
			return
		}
		q.Remove(op)
	}
	if op.came == 0 {
		q.came++
		op.came = q.came
	}
	op.state, op.release = queued, release
	place, _ := slices.BinarySearchFunc(q.line, op, compare)
	q.line = slices.Insert(q.line, place, op)
}

// Remove takes op out of the queue, if it is there and not in flight.
func (q *Queue[T]) Remove(op *Op[T]) {
	if op.state == queued {
		op.state = idle
		place, _ := slices.BinarySearchFunc(q.line, op, compare)
		q.line = slices.Delete(q.line, place, place+1)
	}
	op.again = false
}

// Probe makes sure that another call is made, even an empty one.
func (q *Queue[T]) Probe() { q.probe = true }

// InFlight returns the call in flight, or nil.
func (q *Queue[T]) InFlight() *Call[T] { return q.call }

// Hurry bounds how long the call in flight, if there is one, keeps an operation waiting that
// was put at now, and whose own call may take timeout at most.
func (q *Queue[T]) Hurry(now clock.Instant, timeout time.Duration) {
	timeout = q.patience(timeout)
	if q.overtaken {
		timeout = leastTimeout
	}
	q.giveUpAt = min(q.giveUpAt, now.Add(timeout))
}

// patience is how long a call may take whose operations ask for most at the longest.
func (q *Queue[T]) patience(most time.Duration) time.Duration {
	return max(most, leastTimeout, q.Took+q.Took/2)
}

// Prepare returns the operation that t wants at now, and how long its call may take at
// most; false: none.
type Prepare[T any] func(t T, now clock.Instant) (op protocol.Op, timeout time.Duration, ok bool)

// Due reports whether something is wanted, no call is in flight and another one may be at now: then
// Next is likely to return one.
func (q *Queue[T]) Due(now clock.Instant) bool {
	return q.call == nil && !q.stopped && q.hanging < mostHanging && now >= q.retryAt && q.wanted()
}

// Next returns the next call, which is then in flight; nil if none may start now, or
// nothing is wanted.
func (q *Queue[T]) Next(now clock.Instant, prepare Prepare[T]) *Call[T] {
	if !q.Due(now) {
		return nil
	}
	call := q.spare
	q.spare = nil
	if call == nil {
		call = new(Call[T])
	}
	call.Sent = now
	timeout := q.fill(call, prepare)
	if len(call.Ops) == 0 {
		if !q.probe {
			q.spare = call
			return nil
		}
		timeout = emptyTimeout
	}
	call.Deadline = now.Add(q.patience(timeout))
	q.call, q.giveUpAt, q.probe, q.overtaken = call, call.Deadline, false, false
	return call
}

// wanted reports whether there is something to send.
func (q *Queue[T]) wanted() bool { return q.probe || len(q.line) > 0 }

// longest is longer than any call takes.
const longest = time.Duration(1<<63 - 1)

// fill moves operations from the line to the call while there is room, and returns the least of
// their timeouts.
func (q *Queue[T]) fill(c *Call[T], prepare Prepare[T]) (timeout time.Duration) {
	timeout = longest
	n := 0
	for _, w := range q.line {
		if c.ids+protocol.MostNamed > mostIDs {
			break // the next operation may be a move
		}
		op, most, ok := prepare(w.Of, c.Sent)
		if ok && w.Shared && c.names(op.ID) {
			// Two adopt one lease, say: the second learns of the first by the next call. Until
			// then its owner takes it for sent, which only makes the owner careful.
			break
		}
		if n++; !ok {
			w.state = idle
			continue
		}
		timeout = min(timeout, most)
		w.state = inFlight
		c.Ops = append(c.Ops, w)
		c.Wire = append(c.Wire, op)
		c.ids += op.Named()
	}
	q.line = slices.Delete(q.line, 0, n)
	return timeout
}

// names reports whether the call has an operation on id. The protocol allows one.
func (c *Call[T]) names(id string) bool {
	return slices.ContainsFunc(c.Wire, func(op protocol.Op) bool { return op.ID == id || op.To == id })
}

// Len returns how many operations wait.
func (q *Queue[T]) Len() int { return len(q.line) }

// Return ends a call that has its outcome; false: it was given up before, so its operations
// were sent again, or will be. Otherwise the caller must tell the owners of its operations the
// outcome, put those that are still wanted into the queue again, and give the call back by
// Reuse.
func (q *Queue[T]) Return(call *Call[T]) bool {
	if q.call != call {
		if call.hangs {
			call.hangs = false
			q.hanging--
		}
		return false
	}
	q.call = nil
	for _, op := range call.Ops {
		op.state = idle
		if op.again {
			op.again = false
			q.Put(op, false)
		}
	}
	return true
}

// GiveUp ends the wait for the call in flight as Return does, but leaves it to whoever makes it.
// Its outcome is unknown, until it comes to Return.
func (q *Queue[T]) GiveUp() {
	call := q.call
	q.Return(call)
	call.hangs = true
	q.hanging++
}

// Hangs reports whether a call that was given up has no outcome yet. Too many keep others back.
func (q *Queue[T]) Hangs() bool { return q.hanging > 0 }

// Overdue returns the call in flight if it is to be given up at now. It may still be
// executed.
func (q *Queue[T]) Overdue(now clock.Instant) *Call[T] {
	if q.call != nil && !q.stopped && now >= q.giveUpAt {
		return q.call
	}
	return nil
}

// Reuse keeps the memory of a call that was returned, and that nothing refers to any more.
func (q *Queue[T]) Reuse(call *Call[T]) {
	clear(call.Ops)
	clear(call.Wire)
	*call = Call[T]{Ops: call.Ops[:0], Wire: call.Wire[:0]}
	q.spare = call
}

// Answered notes that the call in flight was answered.
func (q *Queue[T]) Answered() { q.err, q.pause, q.retryAt = nil, 0, 0 }

// AnsweredLate notes that a call which was given up has been answered. The one in flight, which
// was made after it, has met a slower connection: what comes now need not wait for it.
func (q *Queue[T]) AnsweredLate() {
	q.pause, q.retryAt = 0, 0
	q.overtaken = q.call != nil
}

// Failed notes that a call failed. The next one comes after a pause, but for two errors: if only the
// connection broke, the first repetition comes at once; and what was rejected is not repeated.
func (q *Queue[T]) Failed(now clock.Instant, err error) {
	q.err = err
	if errors.Is(err, protocol.ErrRejected) {
		return
	}
	if q.pause > 0 || !errors.Is(err, protocol.ErrUnknown) || protocol.GivenUp(err) {
		q.retryAt = now.Add(q.pause/2 + rand.N(max(q.pause, leastPause)))
	}
	q.pause = min(max(2*q.pause, leastPause), mostPause)
}

// Err returns why the last call failed, or nil if it was answered before it was given up.
func (q *Queue[T]) Err() error { return q.err }

// Stop ends the queue: nothing more is sent.
func (q *Queue[T]) Stop() { q.stopped = true }

// Wakeup returns when the owner must look again: to give up a call, or to make one after a pause.
func (q *Queue[T]) Wakeup() clock.Instant {
	switch {
	case q.stopped, q.hanging == mostHanging: // the first that returns goes on
		return clock.Never
	case q.call != nil:
		return q.giveUpAt
	case q.retryAt > 0 && q.wanted():
		return q.retryAt
	}
	return clock.Never
}
