package berthhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/gate"
)

// Handler limits how many requests are served at once, over all processes that use
// the same name and key, and refuses requests that have waited too long. It is safe
// for concurrent use.
type Handler struct {
	limiter *limiter
	next    http.Handler
}

// NewHandler returns a Handler that lets next serve limit requests at once, or that
// many for each Key. Handlers with the same name share the limit, across replicas and
// routes. And adds more limits. The only error is a *berth.InvalidError.
func NewHandler(client *berth.Client, name string, limit int, next http.Handler, opts ...Option) (*Handler, error) {
	if next == nil {
		return nil, &berth.InvalidError{What: "handler", Reason: "it is nil"}
	}
	cfg, err := newConfig(gate.Rule[*http.Request]{Name: name, Limit: limit}, gate.Config[*http.Request]{
		MaxWait: DefaultMaxWait, MaxWaiting: DefaultMaxWaiting, AnswerWithin: DefaultAnswerWithin, MaxHold: DefaultMaxHold,
	}, opts)
	if err != nil {
		return nil, err
	}
	if err := cfg.onlyHandler(); err != nil {
		return nil, err
	}
	if cfg.status == 0 {
		cfg.status = http.StatusTooManyRequests
	}
	if cfg.refuse == nil {
		cfg.refuse = refuse
	}
	l, err := newLimiter(client, cfg)
	if err != nil {
		return nil, err
	}
	return &Handler{limiter: l, next: next}, nil
}

// ServeHTTP waits for a permit until MaxWait is over or the request's context ends,
// and calls next while it holds the permit. It gives the permit back when next returns
// or panics. next gets the original ResponseWriter, so flushing and hijacking work; a
// handler that hijacks the connection gives its permit back when it returns.
//
// The lease is lost at its MaxHold, when an operator evicts it, and when Redis is
// unreachable for longer than its TTL. Then others may get the permit, so the request
// is over: its context ends with the *berth.LostError as its cause, reading its body
// fails, and after 5 seconds writing the response fails, too. next should return; if
// it is blocked in reading or writing, it is unblocked. The server must support
// deadlines, as that of net/http does (http.ResponseController).
//
// The same holds on a connection that next has hijacked, if the request asked for it
// by an Upgrade header or CONNECT. Hijacking clears deadlines, and next may set its own,
// so these are set again every 5 seconds until next returns. A next that hijacks other
// requests must itself end when the context does.
//
// A client that disconnects while it waits loses its place, and one that has
// disconnected when its turn comes is not served. With HTTP/1, the net/http server
// notices a disconnect only once the request body has been read.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h == nil || h.limiter == nil {
		http.Error(w, "this handler was not made by NewHandler, or that failed", http.StatusInternalServerError)
		return
	}
	p, why := h.limiter.take(r)
	if why != nil {
		h.turnAway(w, r, why)
		return
	}
	defer p.Release()
	serve(p, h.limiter.Logger, h.next, w, r)
}

func (h *Handler) turnAway(w http.ResponseWriter, r *http.Request, why *RefusedError) {
	// At a deadline, which is the server's own, the client is still there.
	if errors.Is(r.Context().Err(), context.Canceled) {
		w.WriteHeader(http.StatusServiceUnavailable) // for logs: nobody will read it
		return
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(why.RetryAfter/time.Second)))
	h.limiter.refuse(w, r, why)
}

// refuse answers with the reason in one line, without names, which may be other
// clients'.
func refuse(w http.ResponseWriter, _ *http.Request, why *RefusedError) {
	line := "busy"
	switch {
	case why.Status == http.StatusInternalServerError:
		line = "the limit or the weight of this request is not valid"
	case gate.ByRedis(why.Err):
		line = "temporarily unavailable"
	case gate.FullForTenant(why.Err):
		line = "busy: the queue is full for the tenant of this request"
	case why.Ahead == 1:
		line = "busy: 1 request is ahead of this one"
	case why.Ahead > 1:
		line = fmt.Sprintf("busy: %d requests are ahead of this one", why.Ahead)
	}
	http.Error(w, fmt.Sprintf("%s; try again in %v", line, why.RetryAfter), why.Status)
}
