package worker

import (
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/verify/history"
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
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		h.look()
		select {
		case <-tick.C:
		case <-end.C:
			return
		case <-h.lease.Context().Done():
			return
		case <-ctx.Done():
			return
		}
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
	h.look()
	e := history.Event{Op: h.out.Op(), Verb: history.Release, Kind: history.Invoke}
	h.say(e)
	err := h.lease.Release()
	e.Kind = history.Return
	e.Outcome, _, e.Text = outcome(err)
	h.say(e)
}

// detach gives the lease to the seat that finds its handle. It reports false if the
// lease is still held.
func (h *holding) detach() bool {
	ctx, cancel := h.timeout(context.Background())
	defer cancel()
	h.look()
	e := history.Event{Op: h.out.Op(), Verb: history.Detach, Kind: history.Invoke}
	h.say(e)
	handle, err := h.lease.Detach(ctx)
	kept := err != nil && !h.lease.ValidUntil().IsZero()
	e.Kind, e.Handle, e.Outcome = history.Return, handle, history.OK
	if err != nil {
		e.Outcome, e.Text = history.Unknown, err.Error()
	}
	if kept {
		e.Outcome = history.Refused
	}
	h.say(e)
	if err == nil {
		copies := 1
		if h.one(3) {
			copies = 2
		}
		was := h.event
		h.post(history.Event{Verb: history.Adopt, Name: was.Name, Limit: was.Limit, Weight: was.Weight, TTL: was.TTL, Handle: handle}, copies)
	}
	return !kept
}
