package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/verify/history"
)

// chapter is how long Linear users stay with one semaphore, all of them in step.
const chapter = 1500 * time.Millisecond

// user does one thing after the other.
type user struct {
	*process

	spec   Seat
	seat   int
	rng    *rand.Rand
	client *berth.Client
	sole   bool  // nobody else uses client
	ids    int64 // ids that client has made, if sole
}

func (u *user) run(ctx context.Context) {
	for ctx.Err() == nil {
		switch u.spec.Mode {
		case Linear:
			u.linear(ctx)
		case Late:
			u.late(ctx)
		case Crowd:
			u.crowd(ctx)
		default:
			u.wait(ctx)
		}
	}
}

// between returns a duration from a to b.
func (u *user) between(a, b time.Duration) time.Duration { return a + rand.N(b-a) }

// one reports true once in n times.
func (u *user) one(n int) bool { return u.rng.IntN(n) == 0 }

func (u *user) linear(ctx context.Context) {
	weight := 1 + u.rng.IntN(2)
	h := u.ask(context.Background(), history.Try, weight)
	if h != nil {
		h.hold(ctx, u.between(0, 20*time.Millisecond))
		h.release()
	}
	pause(ctx, u.between(time.Millisecond, 30*time.Millisecond))
}

func (u *user) late(ctx context.Context) {
	if h := u.ask(context.Background(), history.Try, 1, berth.WithoutRenewal()); h != nil {
		if u.one(4) {
			h.release()
		} else {
			h.drop(ctx)
		}
	}
	pause(ctx, u.between(time.Millisecond, 20*time.Millisecond))
}

func (u *user) crowd(ctx context.Context) {
	patience := u.between(10*time.Millisecond, 300*time.Millisecond)
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if h := u.ask(wait, history.Acquire, 1+u.rng.IntN(2)); h != nil {
		h.hold(ctx, u.between(0, 30*time.Millisecond))
		h.release()
	}
	pause(ctx, u.between(0, 10*time.Millisecond))
}

func (u *user) wait(ctx context.Context) {
	weight := 1
	if u.spec.Mode == Mix {
		weight += u.rng.IntN(u.spec.Limit)
	}
	if u.one(10) {
		if h := u.ask(ctx, history.Try, weight); h != nil {
			h.release()
		}
		return
	}
	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if u.one(15) {
		if h := u.ask(wait, history.Acquire, weight, berth.WithoutRenewal()); h != nil {
			h.drop(ctx)
		}
		return
	}
	h := u.ask(wait, history.Acquire, weight)
	if h == nil {
		return
	}
	hold := u.between(0, 50*time.Millisecond)
	if u.one(10) {
		hold = u.between(u.spec.TTL/2, u.spec.TTL*3/2)
	}
	h.hold(ctx, hold)
	h.release()
	pause(ctx, u.between(0, 20*time.Millisecond))
}

// ask makes a request and writes down what came of it; nil: no lease.
func (u *user) ask(ctx context.Context, verb history.Verb, weight int, opts ...berth.Option) *holding {
	name := u.spec.Name
	if u.spec.Mode == Linear {
		name = fmt.Sprintf("%s.%d", name, history.Now().Sub(u.Start)/chapter)
	}
	sem, err := u.client.Semaphore(name, u.spec.Limit, berth.TTL(u.spec.TTL), berth.Weight(weight))
	if err != nil {
		panic(err) // the spec is wrong
	}
	e := history.Event{
		Op: u.out.Op(), Verb: verb, Name: name, Seat: u.seat, Limit: u.spec.Limit, Weight: weight, TTL: u.spec.TTL.Milliseconds(),
	}
	say := func(kind history.Kind) {
		e.Kind = kind
		u.out.Write(e)
	}
	say(history.Invoke)
	var lease *berth.Lease
	u.ids++
	if verb == history.Try {
		lease, err = sem.TryAcquire(ctx, opts...)
	} else {
		queued := e
		queued.Kind = history.Queued
		told := false
		lease, err = sem.Acquire(ctx, append(opts, berth.OnQueued(func(berth.Place) {
			if !told {
				told = true
				u.out.Write(queued)
			}
		}))...)
	}
	if err != nil {
		e.Outcome, e.Used, e.Text = outcome(err)
		say(history.Return)
		if e.Outcome == history.Refused {
			pause(ctx, 20*time.Millisecond) // it will be so for a while
		}
		return nil
	}
	e.Outcome, e.ID, e.Token, e.Slot, e.Again = history.OK, lease.ID(), lease.Token(), lease.Slot(), u.again(lease.ID())
	h := &holding{user: u, lease: lease, event: e}
	if until := lease.ValidUntil(); !until.IsZero() {
		e.Until = history.Of(until)
	}
	h.until = e.Until
	say(history.Return)
	context.AfterFunc(lease.Context(), h.ended)
	return h
}

// again reports whether the request may have got a second id, and with it a
// later place in line: ids are numbered.
func (u *user) again(id string) bool {
	_, number, _ := strings.Cut(id, ".")
	n, err := strconv.ParseInt(number, 36, 64)
	same := u.sole && err == nil && n == u.ids
	u.ids = n
	return !same
}

// outcome sorts an error. What failed without a verdict may have happened, and
// is given back later.
func outcome(err error) (history.Outcome, int, string) {
	var busy *berth.BusyError
	switch {
	case err == nil:
		return history.OK, 0, ""
	case errors.As(err, &busy):
		return history.Busy, busy.InUse, ""
	case errors.Is(err, berth.ErrLost), errors.Is(err, berth.ErrReleased):
		return history.Gone, 0, err.Error()
	case errors.Is(err, berth.ErrRefused), errors.Is(err, berth.ErrCorrupt):
		return history.Refused, 0, err.Error()
	default:
		return history.Unknown, 0, err.Error()
	}
}

// holding is a lease that is held.
type holding struct {
	*user

	lease *berth.Lease
	event history.Event // its request's return
	until history.Time  // as last written
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

// look writes the trust deadline down when it has moved.
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

// drop keeps the lease until it cannot be trusted any more, and leaves it to the
// server. (The client gives back what it still has when the process ends.)
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

func (h *holding) release() {
	h.look()
	e := history.Event{Op: h.out.Op(), Verb: history.Release, Kind: history.Invoke}
	h.say(e)
	err := h.lease.Release()
	e.Kind = history.Return
	e.Outcome, _, e.Text = outcome(err)
	h.say(e)
}
