package berthhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/berth-go/berth"
)

// limiter takes permits for requests. It stores nothing for a key: making a semaphore
// costs nothing.
type limiter struct {
	config

	client *berth.Client
	name   string
	limit  int
	holds  meter
	outage outage

	waiting atomic.Int64 // requests in take, except those of a known outage
}

func newLimiter(client *berth.Client, name string, limit int, cfg config) (*limiter, error) {
	if client == nil {
		return nil, &berth.InvalidError{What: "client", Reason: "it is nil"}
	}
	if len(name) > mostName {
		return nil, &berth.InvalidError{What: "name", Reason: fmt.Sprintf("%d bytes are more than %d", len(name), mostName)}
	}
	if _, err := client.Semaphore(name, limit, cfg.lease...); err != nil {
		return nil, err
	}
	l := &limiter{config: cfg, client: client, name: name, limit: limit}
	l.outage.log = cfg.logger.With("limit", name)
	l.outage.open, l.outage.patience, l.outage.reach = cfg.failOpen, cfg.answerWithin, client.Reach
	return l, nil
}

// permit is what a request holds while it runs. It has no lease if the request passed
// by FailOpen.
type permit struct {
	limiter *limiter
	lease   *berth.Lease
	sem     *berth.Semaphore // nil: it has no lease
	since   time.Time
}

// take waits for a permit for r. On failure it returns the reason, and nothing is held.
// A request whose context has ended gets no permit.
func (l *limiter) take(r *http.Request) (*permit, *RefusedError) {
	w := &attempt{limiter: l, began: time.Now(), name: l.name, limit: l.limit, away: l.outage.known(r.Context())}
	if w.away == nil { // else it does not wait, and those in the queue do not keep it from passing
		defer l.waiting.Add(-1)
		if n := int(l.waiting.Add(1)); l.maxWaiting > 0 && n > l.maxWaiting {
			if n > l.maxWaiting+tries(l.maxWaiting) {
				return nil, w.refusal(ErrMaxWaiting)
			}
			w.once = true
		}
	}
	lease, err := w.acquire(r)
	sem := w.sem
	away := w.away
	if away == nil && errors.Is(err, berth.ErrUnreachable) {
		away = l.outage.unanswered(r.Context())
	}
	switch {
	case r.Context().Err() != nil:
		// The grant came as the context ended: it will not be used.
		giveBack(lease, l.logger)
		err = cmp.Or(err, r.Context().Err())
	case away != nil && l.failOpen && errors.Is(err, berth.ErrUnreachable): // and not for an invalid limit
		l.outage.report(away, false)
		if l.onOpen != nil {
			l.onOpen(r, away)
		}
		err = nil
	case byRedis(err):
		l.outage.report(err, true)
	}
	if err != nil {
		return nil, w.refusal(err)
	}
	return &permit{limiter: l, lease: lease, sem: sem, since: time.Now()}, nil
}

// tries is how many requests at once may ask for a permit that is free while maxWaiting
// requests wait: so that those who wait for one key do not lock out the others.
func tries(maxWaiting int) int { return (maxWaiting + 9) / 10 }

// attempt is one request's attempt to get a permit.
type attempt struct {
	limiter *limiter
	name    string
	limit   int // declared
	sem     *berth.Semaphore
	began   time.Time
	away    error                       // why Redis is known not to be reachable; nil: it is not known
	once    bool                        // it must not wait: MaxWaiting requests do
	place   atomic.Pointer[berth.Place] // when last heard of
}

func (a *attempt) acquire(r *http.Request) (*berth.Lease, error) {
	l := a.limiter
	if l.key != nil {
		key := l.key(r)
		a.name = nameOf(l.name, key)
		if l.limits != nil {
			if a.limit = l.limits(key); a.limit < 1 { // to a semaphore, 0 would declare none
				return nil, &berth.InvalidError{What: "limit", Reason: fmt.Sprintf("it is %d for %q, and less than 1", a.limit, a.name)}
			}
		}
	}
	sem, err := l.client.Semaphore(a.name, a.limit, l.lease...)
	if err != nil {
		return nil, err
	}
	a.sem = sem
	var opts []berth.AcquireOption
	if l.perRequest != nil {
		opts = append(opts, l.perRequest(r)...)
	}
	lease, err := a.wait(r.Context(), sem, opts)
	if answered(err) {
		l.outage.over()
	}
	return lease, err
}

// answered reports whether Redis has just answered. That a request was in the queue says
// nothing: it may have come there long ago.
func answered(err error) bool {
	return err == nil || errors.Is(err, berth.ErrBusy) || errors.Is(err, berth.ErrQueueFull) || errors.Is(err, berth.ErrTooHeavy)
}

// wait acquires within MaxWait and AnswerWithin. The latter no longer applies after
// the first answer, such as a place in the queue. In an outage that is known it sends
// nothing and fails at once, but the client's hooks run, so that they count the request.
func (a *attempt) wait(parent context.Context, sem *berth.Semaphore, opts []berth.AcquireOption) (*berth.Lease, error) {
	l := a.limiter
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	if a.away != nil {
		cancel(a.away)
	}
	answer := time.AfterFunc(l.answerWithin, func() { cancel(errSilence) })
	defer answer.Stop()
	if l.maxWait == 0 || a.once {
		lease, err := sem.TryAcquire(ctx, opts...)
		if a.once && errors.Is(err, berth.ErrBusy) {
			err = fmt.Errorf("%w: %w", ErrMaxWaiting, err)
		}
		return lease, a.reason(ctx, err)
	}
	if l.maxWait > 0 {
		bound := time.AfterFunc(l.maxWait, func() { cancel(a.late()) })
		defer bound.Stop()
	}
	opts = append(opts, berth.OnQueued(func(p berth.Place) {
		answer.Stop()
		a.place.Store(&p)
		l.outage.over()
	}))
	lease, err := sem.Acquire(ctx, opts...)
	return lease, a.reason(ctx, err)
}

// late is the reason of a wait that ended at its bound: a request without a place in
// the queue has waited for Redis.
func (a *attempt) late() error {
	if a.place.Load() == nil {
		return errSilence
	}
	return ErrMaxWait
}

// reason replaces the context's error by our own reason for ending the wait.
func (a *attempt) reason(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if cause == errSilence && errors.Is(err, berth.ErrRefused) { //nolint:errorlint // as it was given
		return refusedSoFar{err} // it was not silent
	}
	if err != nil && cause != nil && (cause == ErrMaxWait || cause == errSilence || cause == a.away) { //nolint:errorlint // as they were given
		return cause
	}
	return err
}

func (a *attempt) refusal(err error) *RefusedError {
	e := &RefusedError{
		Name: a.name, Waited: time.Since(a.began), Ahead: -1, Err: err,
		RetryAfter: leastRetry, Status: statusOf(err, a.limit, a.limiter.status),
	}
	if byRedis(err) {
		return e
	}
	stand := standing{ahead: -1}
	if busy, ok := errors.AsType[*berth.BusyError](err); ok {
		stand = standing{ahead: busy.Waiting, limit: busy.Limit, next: busy.NextExpiry, rest: busy.RetryAfter}
		stand.rate, stand.window, stand.spent = busy.Rate, busy.Window, busy.Spent
	} else if p := a.place.Load(); p != nil {
		stand = standing{ahead: p.Ahead, limit: p.Limit, rest: p.RetryAfter}
		stand.rate, stand.window, stand.spent = p.Rate, p.Window, p.Spent
	}
	e.Ahead = stand.ahead
	e.RetryAfter = stand.retryAfter(a.limiter.holds.mean())
	return e
}
