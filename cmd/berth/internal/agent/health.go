package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/run"
	"github.com/berth-go/berth/internal/bridge"
	"github.com/berth-go/berth/internal/protocol"
)

const (
	// lately is how long a refusal of Redis counts against the health, if nobody asks for a permit
	// after it.
	lately = time.Minute
	// pingTimeout bounds the question whether Redis lets the agent's user in.
	pingTimeout = 3 * time.Second
)

var internals = berth.Internal(bridge.NewKey())

// ending reports whether the agent takes no requests any more.
func (a *Agent) ending() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.draining || a.running.Err() != nil
}

// refusing is that Redis refused a request for a permit.
type refusing struct {
	at  time.Time
	err error
}

// health tells whether the agent takes requests that Redis can answer, and would not refuse.
func (a *Agent) health(w http.ResponseWriter, r *http.Request) {
	if a.ending() {
		refusedStopping.write(w)
		return
	}
	err := internals.Reach(r.Context(), a.client)
	if err == nil {
		err = a.refusedNow(r.Context())
	}
	answer(w, map[string]string{"status": "ok"}, err)
}

// refusedNow returns why Redis refuses requests of the agent: what it said to the last one, or what
// it says to a new connection if it does not know the agent's user any more. Of that it is asked
// each time: the password may have been mended.
func (a *Agent) refusedNow(ctx context.Context) error {
	last := a.refusing.Load()
	login := last != nil && redis.IsAuthError(last.err)
	if last != nil && !login && time.Since(last.at) < lately {
		return last.err
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, rdb, _, _ := internals.Admin(a.client)
	var err error
	for range rdb.PoolStats().IdleConns + 1 { // those that Redis has closed say nothing of a new one
		if err = rdb.Ping(ctx).Err(); err == nil || redis.IsAuthError(err) {
			break
		}
	}
	switch {
	case redis.IsAuthError(err):
		return fmt.Errorf("%w: %w", berth.ErrRefused, &protocol.Failure{Kind: protocol.ErrRejected, Err: err}) // with what to do
	case err == nil && login:
		a.refusing.CompareAndSwap(last, nil)
	}
	return nil
}

// learn notes what Redis said to a request for a permit; nil: it took the request.
func (a *Agent) learn(err error) {
	switch {
	case err == nil, errors.Is(err, berth.ErrBusy), errors.Is(err, berth.ErrQueueFull), errors.Is(err, berth.ErrTooHeavy):
		a.refusing.Store(nil)
	case errors.Is(err, berth.ErrRefused):
		a.refusing.Store(&refusing{time.Now(), err})
	}
}

// late is why a wait has ended at its time: that Redis does not answer, or refuses, or err of the
// library.
func (a *Agent) late(wait time.Duration, err error) error {
	if why, ok := errors.AsType[*protocol.Failure](err); ok && errors.Is(err, berth.ErrRefused) {
		return fmt.Errorf("%w: %w", berth.ErrRefused, why)
	}
	if since, why := a.options.Health.Silent(run.Silence(wait)); !since.IsZero() {
		return fmt.Errorf("%w: %w", berth.ErrUnreachable, run.Unanswered(since, why))
	}
	return err
}

// outageLook is how often the agent looks whether there is an outage to tell of.
const outageLook = time.Second

// watchRedis logs each outage of Redis that requests or renewals meet, and its end, until ctx ends.
func (a *Agent) watchRedis(ctx context.Context) {
	tick := time.NewTicker(outageLook)
	defer tick.Stop()
	var began time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		switch since, why := a.options.Health.Outage(); {
		case since.IsZero() && !began.IsZero():
			a.options.Log("redis answers again, after %v", time.Since(began).Round(outageLook))
			began = since
		case !since.IsZero() && began.IsZero() && time.Since(since) >= outageLook:
			a.options.Log("%v", run.Unanswered(since, why))
			began = since
		}
	}
}
