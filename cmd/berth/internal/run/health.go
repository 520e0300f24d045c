package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/protocol"
)

const (
	// silence is how long a call may take before Redis counts as silent.
	silence = time.Second
	// firstWord is how long Redis may refuse all requests before that ends what cannot wait longer, or
	// is told where somebody waits: a failover can be about to end.
	firstWord = 500 * time.Millisecond
)

var errSilent = errors.New("no answer")

// Health finds out from the traffic of a Redis client whether Redis answers. It sends nothing
// itself. The zero value is ready to use as a hook of one client.
type Health struct {
	mu       sync.Mutex
	calls    []*time.Time           // the beginnings of those under way, in order
	answered time.Time              // the last answer,
	took     time.Duration          // and how long it took
	heard    time.Time              // the last reply, a handshake's included
	failing  time.Time              // the first failure since then
	err      error                  // the last failure
	foreign  chan error             // what answers is no Redis
	refusal  map[*listener]struct{} // those who are to learn of the next one
}

// listener is who is to learn that Redis refuses all requests until somebody acts: it has no memory
// left, for example, or is a replica.
type listener struct {
	long  time.Duration // after the first refusal
	tell  func(why error)
	timer *time.Timer // nil: none has come
}

func (h *Health) lock() {
	h.mu.Lock()
	if h.foreign == nil {
		h.foreign, h.refusal = make(chan error, 1), map[*listener]struct{}{}
	}
}

// Outage returns since when Redis has not answered, and why; or the zero time if it answers,
// as far as is known.
func (h *Health) Outage() (since time.Time, why error) { return h.Silent(silence) }

// Silent is Outage, with least as the time that a call may take before Redis counts as silent.
// It may take longer where the last answer did: slow is not away.
func (h *Health) Silent(least time.Duration) (since time.Time, why error) {
	h.lock()
	defer h.mu.Unlock()
	if !h.failing.IsZero() {
		return h.failing, h.err
	}
	if len(h.calls) == 0 {
		return since, nil
	}
	if since = *h.calls[0]; h.heard.After(since) {
		since = h.heard // others were answered meanwhile, or its own connection's handshake
	}
	if time.Since(since) > max(least, 2*h.took) {
		return since, errSilent
	}
	return time.Time{}, nil
}

// Unanswered is the error of an outage that began at start: why Redis has not answered since then.
func Unanswered(start time.Time, why error) error {
	what := "has not answered"
	if notReady(why) {
		what = "has not been ready"
	}
	return fmt.Errorf("redis %s for %v: %w", what, time.Since(start).Round(100*time.Millisecond), why)
}

// Watch counts f as a call.
func (h *Health) Watch(f func() error) error {
	end := h.begin()
	err := f()
	end(err, false)
	return err
}

// Foreign returns a channel that delivers an error if the server is not a Redis, so that it
// is useless to ask again.
func (h *Health) Foreign() <-chan error {
	h.lock()
	defer h.mu.Unlock()
	return h.foreign
}

// OnRefusal calls tell with why, once: long after the first call from now on that is answered with a
// refusal of all requests, unless stop is called before. That others are served meanwhile does not
// prevent it: in a Cluster another server may have served them, and a replica serves what only reads.
// Who is served calls stop.
func (h *Health) OnRefusal(long time.Duration, tell func(why error)) (stop func()) {
	l := &listener{long: long, tell: tell}
	h.lock()
	defer h.mu.Unlock()
	h.refusal[l] = struct{}{}
	return func() {
		h.lock()
		defer h.mu.Unlock()
		delete(h.refusal, l)
		if l.timer != nil {
			l.timer.Stop()
		}
	}
}

// Refusals delivers why, as OnRefusal tells it, until ctx ends.
func (h *Health) Refusals(ctx context.Context, long time.Duration) <-chan error {
	lasting := make(chan error, 1)
	context.AfterFunc(ctx, h.OnRefusal(long, func(why error) { lasting <- why }))
	return lasting
}

// UnlessRefused calls f, and ends its context a moment after Redis has refused all requests, unless f
// calls served before: the library would go on asking for seconds. If f then returns the end of its
// context, UnlessRefused returns why, which is berth.ErrRefused, and otherwise what f returns. It is a
// moment also because a Cluster has other names on other servers, which may serve them.
func (h *Health) UnlessRefused(ctx context.Context, f func(ctx context.Context, served func()) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	served := h.OnRefusal(firstWord, func(why error) { end(fmt.Errorf("%w: %w", berth.ErrRefused, why)) })
	defer served()
	err := f(ctx, served)
	if why := context.Cause(ctx); errors.Is(err, context.Canceled) && errors.Is(why, berth.ErrRefused) {
		return why
	}
	return err // an answer that came just then is the answer
}

// Answered reports whether Redis has ever answered.
func (h *Health) Answered() bool {
	h.lock()
	defer h.mu.Unlock()
	return !h.answered.IsZero()
}

// begin notes the start of a call and returns what to call at its end.
func (h *Health) begin() (end func(err error, handshake bool)) {
	h.lock()
	defer h.mu.Unlock()
	start := time.Now()
	h.calls = append(h.calls, &start)
	return func(err error, handshake bool) {
		h.lock()
		defer h.mu.Unlock()
		h.calls = slices.DeleteFunc(h.calls, func(c *time.Time) bool { return c == &start })
		if err == nil || replied(err) {
			h.heard = time.Now()
		}
		if !handshake || err != nil && !replied(err) {
			h.note(err, start)
		}
	}
}

// note handles the outcome of a call. An error that Redis has replied is an answer, too,
// unless it will pass; an error of the caller's own context tells nothing. An outage has begun
// with the first call that fails, at start, or with the last answer since. h.mu is held.
func (h *Health) note(err error, start time.Time) {
	if f := protocol.Lasting(err); f != nil {
		err = f // it says what to do, too
		for l := range h.refusal {
			l.timer = time.AfterFunc(l.long, func() { l.tell(f) })
			delete(h.refusal, l)
		}
	}
	switch {
	case err == nil, replied(err) && !notReady(err):
		h.answered, h.failing = time.Now(), time.Time{}
		h.took = h.answered.Sub(start)
	case errors.Is(err, context.Canceled), errors.Is(err, redis.ErrClosed):
		return
	default:
		if h.failing.IsZero() {
			if h.failing = start; h.answered.After(start) {
				h.failing = h.answered
			}
		}
		h.err = err
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			h.err = errSilent
		}
		if h.answered.IsZero() {
			h.suspect(err)
		}
	}
}

// replied reports whether Redis has replied err. A Nil is not a reply of Redis: with it the
// sentinels say that they do not know the master.
func replied(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok && !errors.Is(err, redis.Nil)
}

// noProtocol matches the client's errors about an answer that is not in Redis's protocol. They
// have no type; the answer is quoted at the end.
var noProtocol = regexp.MustCompile(`(?s)redis: (?:can't parse|invalid reply)[^"]*(".*)`)

// suspect delivers an error if err, about the first answer, is one of those. h.mu is held.
func (h *Health) suspect(err error) {
	if match := noProtocol.FindStringSubmatch(err.Error()); match != nil && len(h.foreign) == 0 {
		h.foreign <- errors.New("what listens there is not Redis: it says " + match[1])
	}
}

// notReady reports whether err is the reply of a Redis that will be able to
// serve later.
func notReady(err error) bool {
	return redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsMasterDownError(err) ||
		redis.IsClusterDownError(err) || redis.IsTryAgainError(err) || redis.IsMaxClientsError(err)
}

// handshake reports whether a command belongs to the beginning of a connection. A Redis that
// is not ready for anything else answers it.
func handshake(cmd redis.Cmder) bool {
	return slices.Contains([]string{"hello", "auth", "select", "client", "info"}, cmd.Name())
}

// DialHook implements redis.Hook. A connection alone is not an answer.
func (h *Health) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		start := time.Now()
		conn, err := next(ctx, network, addr)
		if err != nil {
			h.lock()
			h.note(err, start)
			h.mu.Unlock()
		}
		return conn, err
	}
}

// ProcessHook implements redis.Hook.
func (h *Health) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		end := h.begin()
		err := next(ctx, cmd)
		end(err, handshake(cmd))
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h *Health) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		end := h.begin()
		err := next(ctx, cmds)
		end(err, len(cmds) > 0 && handshake(cmds[0]))
		return err
	}
}
