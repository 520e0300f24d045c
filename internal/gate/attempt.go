package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/look"
	"github.com/berth-go/berth/internal/protocol"
)

// attempt is one call's attempt to get a permit of each limit.
type attempt[R any] struct {
	gate  *Gate[R]
	ctx   context.Context //nolint:containedctx // the call's
	began time.Time
	away  error // why Redis is known not to be reachable; nil: it is not known
	once  bool  // it must not wait: MaxWaiting calls do

	asks   []Ask // in the order of the rules; until prepare they have only their tenants
	order  []int // in which they are taken; empty: nothing was asked
	taken  int   // how many of them were
	leases berth.Leases
	cancel context.CancelCauseFunc

	place atomic.Pointer[berth.Place] // in the queue of the one that is asked for, when last heard of
	heard atomic.Bool                 // Redis has answered
}

// attempt returns that of a call.
func (g *Gate[R]) attempt(ctx context.Context, r R) *attempt[R] {
	a := &attempt[R]{gate: g, ctx: ctx, began: time.Now(), asks: make([]Ask, len(g.Rules))}
	for i := range g.Rules {
		a.asks[i].tenant = g.Rules[i].tenant(r)
	}
	return a
}

// tenant returns that of the first limit that has one for the call; "": none has.
func (a *attempt[R]) tenant() string {
	for i := range a.asks {
		if t := a.asks[i].tenant; t != "" {
			return t
		}
	}
	return ""
}

// acquire takes a permit of each limit, or of none.
func (a *attempt[R]) acquire(r R) (berth.Leases, error) {
	if err := a.prepare(r); err != nil {
		return nil, err
	}
	g := a.gate
	ctx, cancel := context.WithCancelCause(a.ctx)
	defer cancel(nil)
	a.cancel = cancel
	if a.away != nil {
		cancel(a.away)
	}
	if g.MaxWait > 0 {
		bound := time.AfterFunc(g.MaxWait, func() { cancel(a.late()) })
		defer bound.Stop()
		ctx = bounded{ctx, a.began.Add(g.MaxWait)}
	}
	whole := false
	defer func() {
		if !whole { // one failed, or a hook panicked
			internals.Unused(a.leases)
			giveBack(a.leases, g.Logger, g.Package)
		}
	}()
	for _, i := range a.order {
		lease, err := a.one(ctx, &a.asks[i])
		if answered(err) {
			a.heard.Store(true)
			g.outage.over()
		}
		if err != nil {
			return nil, err
		}
		a.leases[i] = lease
		a.taken++
		if a.taken < len(a.order) { // while it waits for the next it must not lose this one
			held := lease.Context()
			defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
		}
	}
	whole = true
	return a.leases, nil
}

// bounded is a context that tells of its end by MaxWait, for berth.FailEarly. Another ends it, because
// the cause is known only then.
type bounded struct {
	context.Context //nolint:containedctx // it is one

	end time.Time
}

// Deadline implements context.Context.
func (b bounded) Deadline() (time.Time, bool) {
	if first, ok := b.Context.Deadline(); ok && first.Before(b.end) {
		return first, true
	}
	return b.end, true
}

// prepare asks each rule, and finds the order.
func (a *attempt[R]) prepare(r R) (err error) {
	g := a.gate
	a.leases = make(berth.Leases, len(g.Rules))
	sems := make([]*berth.Semaphore, len(g.Rules))
	for i := range g.Rules {
		if a.asks[i], err = g.Rules[i].ask(g.client, r, a.asks[i].tenant); err != nil {
			a.order = []int{i} // it is to blame
			return err
		}
		sems[i] = a.asks[i].Sem
	}
	a.order = []int{0}
	if len(sems) > 1 {
		order, err := internals.Order(sems)
		if err != nil {
			return err
		}
		a.order = order
	}
	return nil
}

// answered reports whether Redis has just answered. That a call was in the queue says
// nothing: it may have come there long ago.
func answered(err error) bool {
	return err == nil || errors.Is(err, berth.ErrBusy) || errors.Is(err, berth.ErrQueueFull) || errors.Is(err, berth.ErrTooHeavy)
}

// one takes one permit within MaxWait and AnswerWithin. The latter no longer applies after
// the first answer, such as a place in the queue. In an outage that is known it sends
// nothing and fails at once, but the client's hooks run, so that they count the request.
func (a *attempt[R]) one(ctx context.Context, k *Ask) (*berth.Lease, error) {
	g := a.gate
	a.place.Store(nil)
	answer := time.AfterFunc(g.AnswerWithin, func() { a.cancel(errSilence) })
	defer answer.Stop()
	if g.Before != nil {
		g.Before(ctx, k.Name)
	}
	if g.MaxWait == 0 || a.once {
		lease, err := k.Sem.TryAcquire(ctx, k.opts...)
		if a.once && errors.Is(err, berth.ErrBusy) {
			err = fmt.Errorf("%w: %w", a.crowded(), err)
		}
		return lease, a.reason(ctx, err)
	}
	heard := berth.OnQueued(func(p berth.Place) {
		answer.Stop()
		a.place.Store(&p)
		a.heard.Store(true)
		g.outage.over()
	})
	lease, err := k.Sem.Acquire(ctx, slices.Concat([]berth.AcquireOption{heard}, k.opts)...) // first, as another may block
	return lease, a.reason(ctx, err)
}

// crowded is ErrMaxWaiting, for the call's tenant if it has one.
func (a *attempt[R]) crowded() error {
	if tenant := a.tenant(); tenant != "" {
		return partTaken{tenant}
	}
	return ErrMaxWaiting
}

// late is the reason of a wait that ended at its bound: a call to which Redis has said
// nothing has waited for Redis.
func (a *attempt[R]) late() error {
	if !a.heard.Load() {
		return errSilence
	}
	return ErrMaxWait
}

// reason replaces the context's error by our own reason for ending the wait, or by the end of a
// lease that was held meanwhile.
func (a *attempt[R]) reason(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == errSilence && errors.Is(err, berth.ErrRefused) { //nolint:errorlint // as it was given
		return refusedSoFar{err} // it was not silent
	}
	if err == nil || cause == nil {
		return err
	}
	if cause == ErrMaxWait || cause == errSilence || cause == a.away || errors.Is(cause, berth.ErrLost) { //nolint:errorlint // as they were given
		return cause
	}
	return err
}

func (a *attempt[R]) refusal(err error) *Refusal {
	g := a.gate
	blamed := Ask{Name: g.Rules[0].Name, limit: g.Rules[0].Limit}
	if len(a.order) > 0 {
		blamed = a.asks[a.order[min(a.taken, len(a.order)-1)]]
	}
	e := &Refusal{Name: blamed.Name, Limit: blamed.limit, Waited: time.Since(a.began), Ahead: -1, Err: err, RetryAfter: leastRetry}
	if ByRedis(err) {
		return e
	}
	stand := a.standing(err, &blamed)
	e.Ahead = stand.ahead
	e.RetryAfter = max(stand.retryAfter(g.holds.mean()), a.others())
	return e
}

// standing is what is known of the queue of the limit that has refused.
func (a *attempt[R]) standing(err error, k *Ask) standing {
	if busy, ok := errors.AsType[*berth.BusyError](err); ok {
		return standing{Status: busy.Status, ahead: busy.Waiting, next: busy.NextExpiry}
	}
	p := a.place.Load()
	if p == nil {
		return standing{ahead: -1}
	}
	s := standing{Status: p.Status, ahead: p.Ahead}
	if s.Rate > 0 || s.Paused { // how long these last is told to the head of the queue alone, and was told a while ago
		if now, ok := a.look(k, a.gate.AnswerWithin); ok {
			now.ahead = s.ahead
			return now
		}
	}
	return s
}

// others estimates when the limits that were not asked may all have room for another try. Those
// that this call has passed have room: it gives back what it got there.
func (a *attempt[R]) others() (d time.Duration) {
	until := time.Now().Add(a.gate.AnswerWithin)
	for i := a.taken + 1; i < len(a.order); i++ {
		if k := &a.asks[a.order[i]]; k.Sem != nil {
			d = max(d, a.other(k, time.Until(until)))
		}
	}
	return d
}

// other estimates it for one of them.
func (a *attempt[R]) other(k *Ask, within time.Duration) time.Duration {
	s, ok := a.look(k, within)
	switch {
	case !ok:
		return 0
	case s.free:
		return seconds(s.rateRoom())
	}
	return s.retryAfter(a.gate.holds.mean())
}

// look asks Redis what the call would find at a limit. It does not, unless the call's context, and so
// its caller, is still there. ok: there is such a semaphore, as far as Redis has said in time.
func (a *attempt[R]) look(k *Ask, within time.Duration) (s standing, ok bool) {
	if a.ctx.Err() != nil {
		return s, false
	}
	store, key, terms, err := internals.Terms(k.Sem, k.opts)
	if err != nil {
		return s, false
	}
	snap, err := protocol.Bounded(a.ctx, within, func(ctx context.Context) (*look.Snapshot, error) {
		return look.New(store).Inspect(ctx, key, false)
	})
	if err != nil || !snap.Exists {
		return s, false
	}
	in := func(at int64) time.Duration { return max(time.Duration(at-snap.Now)*time.Millisecond, 0) }
	binds, _ := snap.Binding(snap.Now, terms.Weight, terms.Costs)
	return standing{
		ahead: snap.Waiting, next: in(snap.Next),
		free: snap.Waiting == 0 && snap.Used+terms.Weight <= snap.Limit() && (!snap.Paused || snap.Ends > 0),
		Status: berth.Status{
			Limit: snap.Limit(), Rate: binds.N, Window: binds.Per, Burst: binds.Burst, Spent: binds.Spent,
			RetryAfter: max(snap.Rest(terms.Weight, terms.Costs), in(snap.Ends)),
		},
	}, true
}
