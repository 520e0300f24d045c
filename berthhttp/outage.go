package berthhttp

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// retryRedis is how long nobody asks a Redis that was away.
	retryRedis = time.Second
	// reportEvery is how often an outage that goes on is logged.
	reportEvery = 10 * time.Second
)

// outage keeps requests from queueing up before a Redis that is away: while it
// lasts, one request a second finds out whether it is over, and the others are
// told at once.
type outage struct {
	log  *slog.Logger
	open bool // requests pass, rather than being refused

	mu      sync.Mutex
	err     error     // guarded by mu; why; nil: none is known
	retryAt time.Time // guarded by mu
	logged  time.Time // guarded by mu
	count   int       // guarded by mu; requests since logged
}

// known returns the reason if Redis is not to be asked now.
func (o *outage) known(patience time.Duration) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return nil
	}
	now := time.Now()
	if now.Before(o.retryAt) {
		return o.err
	}
	o.retryAt = now.Add(patience + retryRedis) // this one asks, for all
	return nil
}

// begin notes that Redis did not answer, or not as it should.
func (o *outage) begin(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.retryAt = err, time.Now().Add(retryRedis)
}

// over notes that Redis has answered.
func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		return
	}
	o.err = nil
	o.log.Info("berthhttp: redis is back", o.what(), o.count)
	o.count, o.logged = 0, time.Time{}
}

// report logs one more request that had to do without Redis, or counts it if
// others were logged a moment ago.
func (o *outage) report(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count++
	if now := time.Now(); now.Sub(o.logged) >= reportEvery {
		o.log.Warn("berthhttp: redis is away", o.what(), o.count, "error", err)
		o.logged, o.count = now, 0
	}
}

// what names the number of requests in a log.
func (o *outage) what() string {
	if o.open {
		return "passed without a limit"
	}
	return "refused"
}
