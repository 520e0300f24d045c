package worker

import (
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/dev/verify/history"
)

// holding is a held lease.
type holding struct {
	*user

	lease *berth.Lease
	event history.Event // its request's return
	until history.Time  // trust deadline that was last recorded
}

func (h *holding) say(e history.Event) {
	e.Name, e.Weight, e.Lease, e.Token = h.event.Name, h.event.Weight, h.event.Op, h.event.Token
	h.out.Write(e)
}

func (h *holding) ended() {
	if cause := context.Cause(h.lease.Context()); errors.Is(cause, berth.ErrLost) {
		h.say(history.Event{Kind: history.Lost, Text: cause.Error()})
	}
}

// look records the trust deadline if it has moved.
func (h *holding) look() {
	until := h.lease.ValidUntil()
	if until.IsZero() {
		return
	}
	if at := history.Of(until); at > h.until.Add(time.Millisecond) {
		h.until = at
		h.say(history.Event{Kind: history.Trust, Until: at})
	}
}

// hold keeps the lease for d, or until it is lost or ctx ends.
func (h *holding) hold(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	defer context.AfterFunc(h.lease.Context(), cancel)()
	for ctx.Err() == nil {
		h.look()
		pause(ctx, 10*time.Millisecond)
	}
}

// drop keeps the lease until it cannot be trusted any more and leaves it to the
// server. If ctx ends first, it releases the lease.
func (h *holding) drop(ctx context.Context) {
	for h.lease.Valid() && ctx.Err() == nil {
		h.look()
		pause(ctx, 5*time.Millisecond)
	}
	if ctx.Err() != nil {
		h.release()
		return
	}
	h.say(history.Event{Op: h.out.Op(), Kind: history.Return, Verb: history.Drop, Outcome: history.OK})
}

// part releases the lease or, one time in n, detaches it for another seat to adopt.
func (h *holding) part(n int) {
	if h.lease.Context().Err() != nil || !h.one(n) || !h.detach() {
		h.release()
	}
}

func (h *holding) release() {
	h.end(history.Release, func(e *history.Event) {
		e.Outcome, _, e.Text = outcome(h.lease.Release())
	})
}

// detach gives the lease to the seat that finds its handle. It reports false if the
// lease is still held.
func (h *holding) detach() bool {
	ctx, cancel := h.timeout(context.Background())
	defer cancel()
	kept := false
	e := h.end(history.Detach, func(e *history.Event) {
		handle, err := h.lease.Detach(ctx)
		e.Handle = string(handle)
		kept = err != nil && !h.lease.ValidUntil().IsZero()
		switch {
		case err == nil:
			e.Outcome = history.OK
		case kept:
			e.Outcome, e.Text = history.Refused, err.Error()
		default:
			e.Outcome, e.Text = history.Unknown, err.Error()
		}
	})
	if e.Outcome == history.OK {
		copies := 1
		if h.one(3) {
			copies = 2
		}
		was := h.event
		h.post(history.Event{Verb: history.Adopt, Name: was.Name, Limit: was.Limit, Weight: was.Weight, TTL: was.TTL, Handle: e.Handle}, copies)
	}
	return !kept
}

// end records a call that ends the lease, and what it sets in the event of its return.
func (h *holding) end(verb history.Verb, call func(*history.Event)) history.Event {
	h.look()
	e := history.Event{Op: h.out.Op(), Verb: verb, Kind: history.Invoke}
	h.say(e)
	e.Kind = history.Return
	call(&e)
	h.say(e)
	return e
}
