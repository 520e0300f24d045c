package berthhttp

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/berth-go/berth"
)

// Handler serves at most so many requests at once, over all processes that use
// the same name and key, and refuses what has waited too long. It is safe for
// concurrent use.
type Handler struct {
	limiter *limiter
	next    http.Handler
}

// NewHandler returns a Handler that lets next serve limit requests at once, or
// that many for each Key. name is what the limit is called in Redis: handlers
// that name the same one share it, across replicas and across routes. It fails
// with a *berth.InvalidError.
func NewHandler(client *berth.Client, name string, limit int, next http.Handler, opts ...Option) (*Handler, error) {
	if next == nil {
		return nil, &berth.InvalidError{What: "handler", Reason: "it is nil"}
	}
	cfg, err := config{maxWait: DefaultMaxWait, answerWithin: DefaultAnswerWithin}.with(opts)
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
	l, err := newLimiter(client, name, limit, cfg)
	if err != nil {
		return nil, err
	}
	return &Handler{limiter: l, next: next}, nil
}

// ServeHTTP waits for a permit within MaxWait and the request's context, and has
// next serve the request while it holds it, panics included. next gets the
// ResponseWriter as it is, so flushing, hijacking and all else work; a handler
// that hijacks and returns has given its permit back.
//
// The request's context ends when the lease is lost, and next should stop then. A
// client that goes away while it waits loses its place, and one that is gone when
// its turn comes is not served. The net/http server notices that a client of
// HTTP/1 is gone only once the request body has been read.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, why := h.limiter.take(r)
	if why != nil {
		h.turnAway(w, r, why)
		return
	}
	ctx, cancel := p.bind(r.Context())
	defer p.release()
	defer cancel()
	defer h.reportLoss(p)
	h.next.ServeHTTP(w, r.WithContext(ctx))
}

// reportLoss says that the limit may have been exceeded by a handler that went on.
func (h *Handler) reportLoss(p *permit) {
	if lost := p.lost(); lost != nil {
		h.limiter.logger.Warn("berthhttp: a lease was lost while its request was served; the request's context was ended",
			"name", lost.Name, "held", time.Since(p.since).Round(time.Millisecond), "error", lost)
	}
}

func (h *Handler) turnAway(w http.ResponseWriter, r *http.Request, why *RefusedError) {
	if r.Context().Err() != nil {
		w.WriteHeader(http.StatusServiceUnavailable) // for logs: nobody will read it
		return
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(why.RetryAfter/time.Second)))
	h.limiter.refuse(w, r, why)
}

// refuse says why in a line, without names: they may be other people's.
func refuse(w http.ResponseWriter, _ *http.Request, why *RefusedError) {
	line := "busy"
	switch {
	case why.Status == http.StatusInternalServerError:
		line = "the limit for this request is not valid"
	case away(why.Err):
		line = "temporarily unavailable"
	case why.Ahead == 1:
		line = "busy: 1 request is ahead of this one"
	case why.Ahead > 1:
		line = fmt.Sprintf("busy: %d requests are ahead of this one", why.Ahead)
	}
	http.Error(w, fmt.Sprintf("%s; try again in %v", line, why.RetryAfter), why.Status)
}
