package gate

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/berth-go/berth"
)

const (
	// lookEvery is how long the result of a look at Redis is used.
	lookEvery = time.Second
	// reportEvery is how often requests without an answer are logged.
	reportEvery = 10 * time.Second
)

// outage knows whether Redis can be reached. A request without an answer does not show
// it, because its time may have passed in a queue of this process; reach finds out. During an outage requests are not sent to Redis: one request a second
// looks again, and the others get the last result at once.
type outage struct {
	log      *slog.Logger
	pkg      string        // for log records, as Config has it
	calls    string        // the same
	open     bool          // FailOpen
	observe  bool          // Observe: nobody waits for a look
	patience time.Duration // for how long a request that is refused in any case waits for a look
	reach    func(context.Context) error

	mu      sync.Mutex
	err     error         // guarded by mu; why Redis cannot be reached; nil: it can, as far as is known
	looking chan struct{} // guarded by mu; closed when the look that is under way ends; nil: none is
	looked  time.Time     // guarded by mu; when the last one ended
	heard   bool          // guarded by mu; Redis has answered a request since the last one began
	logged  time.Time     // guarded by mu
	count   int           // guarded by mu; requests without an answer since logged
}

// known returns why Redis cannot be reached, if that is known. After lookEvery it looks
// again.
func (o *outage) known(ctx context.Context) error {
	o.mu.Lock()
	if o.err == nil || o.looking != nil || time.Since(o.looked) < lookEvery {
		defer o.mu.Unlock()
		return o.err
	}
	if o.observe {
		defer o.mu.Unlock()
		o.look()
		return o.err
	}
	if !o.open {
		bounded, cancel := context.WithTimeout(ctx, o.patience)
		defer cancel()
		ctx = bounded
	}
	return o.await(ctx)
}

// unanswered looks at Redis because a request had no answer, and returns why Redis
// cannot be reached. If requests are refused in any case it does not wait for the
// result, which then is for later requests.
func (o *outage) unanswered(ctx context.Context) error {
	o.mu.Lock()
	if o.open {
		return o.await(ctx)
	}
	defer o.mu.Unlock()
	o.look()
	return nil
}

// await waits for a look, or for ctx. It unlocks mu.
func (o *outage) await(ctx context.Context) error {
	if looking := o.look(); looking != nil {
		o.mu.Unlock()
		select {
		case <-looking:
		case <-ctx.Done():
		}
		o.mu.Lock()
	}
	defer o.mu.Unlock()
	return o.err
}

// look starts a look, unless one is under way or has just ended; then it returns
// nil. mu is held.
func (o *outage) look() <-chan struct{} {
	if o.looking == nil && time.Since(o.looked) >= lookEvery {
		looking := make(chan struct{})
		o.looking, o.heard = looking, false
		go func() {
			defer close(looking)
			o.settle(o.reach(context.Background()))
		}()
	}
	return o.looking
}

// settle takes the result of a look. There is no outage if the result is nil, or if
// Redis has answered a request meanwhile.
func (o *outage) settle(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.heard || !errors.Is(err, berth.ErrUnreachable) {
		err = nil
	}
	o.looking, o.looked = nil, time.Now()
	o.change(err)
}

// over notes that Redis has answered a request.
func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = true
	o.change(nil)
}

// change logs the beginning and the end of an outage. mu is held.
func (o *outage) change(err error) {
	switch {
	case o.err == nil && err != nil:
		what := o.calls + " are refused"
		if o.open || o.observe {
			what = o.calls + " pass without a limit"
		}
		o.log.Warn(o.pkg+": redis is away: "+what, "error", err)
		o.logged = time.Now()
	case o.err != nil && err == nil:
		o.log.Info(o.pkg+": redis is back", o.calls, o.count)
		o.count, o.logged = 0, time.Time{}
	}
	o.err = err
}

// report logs one more request that had no permit because of Redis, and whether
// it was refused; or counts it if others were logged a moment ago.
func (o *outage) report(err error, refused bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count++
	if now := time.Now(); now.Sub(o.logged) >= reportEvery {
		o.log.Warn(o.pkg+": no permit from redis", o.calls, o.count, "refused", refused, "error", err)
		o.logged, o.count = now, 0
	}
}
