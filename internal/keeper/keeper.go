// Package keeper keeps deadlines in order: when the next renewal or heartbeat is due, when
// a lease can no longer be trusted, when the wait for an answer is over. Setting a deadline
// costs O(log n), finding the first one O(1).
package keeper

import (
	"container/heap"

	"github.com/berth-go/berth/internal/clock"
)

// Deadlines are the deadlines of many things. The zero value has none. It is not safe for
// concurrent use.
type Deadlines[T any] struct{ heap entries[T] }

// Entry is the deadline of one thing. It can be used with only one Deadlines.
type Entry[T any] struct {
	Of    T
	at    clock.Instant
	place int // in the heap, from 1; 0: not in it
}

// Set sets the deadline of e to at; clock.Never removes it.
func (d *Deadlines[T]) Set(e *Entry[T], at clock.Instant) {
	switch {
	case e.place > 0 && at == e.at:
	case e.place > 0 && at == clock.Never:
		heap.Remove(&d.heap, e.place-1)
	case e.place > 0:
		e.at = at
		heap.Fix(&d.heap, e.place-1)
	case at != clock.Never:
		e.at = at
		heap.Push(&d.heap, e)
	}
}

// First returns the thing with the earliest deadline, and the deadline; clock.Never if
// there is none.
func (d *Deadlines[T]) First() (first T, at clock.Instant) {
	if len(d.heap) == 0 {
		return first, clock.Never
	}
	return d.heap[0].Of, d.heap[0].at
}

// entries implement heap.Interface.
type entries[T any] []*Entry[T]

// Len implements heap.Interface.
func (h entries[T]) Len() int { return len(h) }

// Less implements heap.Interface.
func (h entries[T]) Less(i, j int) bool { return h[i].at < h[j].at }

// Swap implements heap.Interface.
func (h entries[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

// Push implements heap.Interface.
func (h *entries[T]) Push(x any) {
	e := x.(*Entry[T]) //nolint:forcetypeassert // by Set, above
	*h = append(*h, e)
	e.place = len(*h)
}

// Pop implements heap.Interface.
func (h *entries[T]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.place = 0
	return e
}
