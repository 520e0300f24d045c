package berth

import (
	"context"
	"errors"
	"slices"
)

// Observation is what would have become of a request that goes on whatever Redis says, as with
// berthhttp.Observe.
type Observation int

// What would have become of an observed request.
const (
	ObservedGrant   Observation = iota + 1 // there was a permit, which it holds
	ObservedWait                           // it would have waited in the queue, nobody knows for how long
	ObservedRefusal                        // it may not wait, the queue is full, or it is too heavy
	ObservedUnknown                        // Redis did not answer before the request ended, or refused
)

var observations = [...]string{ObservedGrant: "grant", ObservedWait: "wait", ObservedRefusal: "refusal", ObservedUnknown: "unknown"}

// String returns grant, wait, refusal or unknown, and "" for 0.
func (o Observation) String() string {
	if o < 0 || int(o) >= len(observations) {
		return ""
	}
	return observations[o]
}

// watch observes one request.
type watch struct {
	waits      bool // the request would wait in the queue
	queueLimit int  // unless so many do
	saw        Observation
}

// see notes the outcome of the TryAcquire that the request was.
func (w *watch) see(err error) {
	busy, _ := errors.AsType[*BusyError](err)
	switch {
	case err == nil:
		w.saw = ObservedGrant
	case busy != nil && w.waits && busy.Waiting < w.queueLimit:
		w.saw = ObservedWait
	case busy != nil, errors.Is(err, ErrTooHeavy):
		w.saw = ObservedRefusal
	default:
		w.saw = ObservedUnknown
	}
}

// observe is a TryAcquire for a request that goes on in any case. waits tells whether it would wait.
func (s *Semaphore) observe(ctx context.Context, waits bool, opts []AcquireOption) (*Lease, Observation, error) {
	w := &watch{waits: waits, saw: ObservedRefusal} // for a request that is not valid, and not sent
	last := requestOption(func(c *config) { c.watch, w.queueLimit = w, c.queueLimit })
	lease, err := s.acquire(ctx, false, slices.Concat(opts, []AcquireOption{last}))
	return lease, w.saw, err
}
