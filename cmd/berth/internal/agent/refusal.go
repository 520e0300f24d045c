package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
)

// refusal is why a request gets nothing. As the body of an answer it has a status; once lines
// were written it is one.
type refusal struct {
	Status  int               `json:"status"`
	Code    string            `json:"error"`
	Message string            `json:"message"`
	Fields  map[string]string `json:"fields,omitempty"`
	Retry   rest              `json:"retry_after_ms,omitzero"` // when it makes sense to ask again; 0: it is not known
	*found
}

// found is the state of the semaphore for which there is no permit.
type found struct {
	Name    string `json:"name"`
	InUse   int    `json:"in_use"`
	Limit   int    `json:"limit,omitempty"` // 0: there is none but a rate, or it is pinned to 0
	Waiting int    `json:"waiting"`
	Paused  bool   `json:"paused"`
	Tenant  string `json:"tenant,omitempty"` // for whom the queue is full

	Rate *spentRate `json:"rate,omitempty"`
}

// foundIn returns the state that an error of the library tells of; nil: it tells of none.
func foundIn(err error) *found {
	var name, tenant string
	var s berth.Status
	if busy, ok := errors.AsType[*berth.BusyError](err); ok {
		name, tenant, s = busy.Name, busy.Tenant, busy.Status
	} else if heavy, ok := errors.AsType[*berth.TooHeavyError](err); ok {
		name, s = heavy.Name, heavy.Status
	} else if wait, ok := errors.AsType[*berth.WaitError](err); ok && wait.Queued {
		name, s = wait.Name, wait.Place.Status
	} else {
		return nil
	}
	return &found{name, s.InUse, limitOf(s.Limit), s.Waiting, s.Paused, tenant, rateOf(&s)}
}

// rest is a duration that JSON has in whole resteconds, not too few.
type rest time.Duration

// MarshalJSON implements json.Marshaler.
func (m rest) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, int64((m+rest(time.Millisecond)-1)/rest(time.Millisecond)), 10), nil
}

// The codes where Redis does not answer or refuses, and where it forbids that to the agent's user.
const (
	refusedRedis = "redis"
	refusedRight = "forbidden"
)

// gone is the code where the client has ended its side.
const gone = "gone"

// soon is when to ask again after what passes.
const soon = rest(time.Second)

// The refusals that the agent itself makes.
var (
	refusedPath     = &refusal{Status: http.StatusNotFound, Code: "no_such_path", Message: "there are /v1/hold, /v1/cooldown, /v1/settle, /v1/semaphores, /v1/semaphores/NAME, /healthz and /metrics"}
	refusedToken    = &refusal{Status: http.StatusUnauthorized, Code: "unauthorized", Message: "send the agent's token: Authorization: Bearer TOKEN"}
	refusedSize     = &refusal{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Message: fmt.Sprintf("a request has at most %d bytes", mostBody)}
	refusedLate     = &refusal{Status: http.StatusRequestTimeout, Code: "incomplete", Message: fmt.Sprintf("the request did not come within %v", readTimeout)}
	refusedDone     = &refusal{Status: http.StatusBadRequest, Code: gone, Message: "the request's body, or the client's half of the connection, ended before there was a permit: keep it open, or send a body with a Content-Length"}
	refusedNotHeld  = &refusal{Status: http.StatusNotFound, Code: "not_held", Message: "no hold of this agent has that id: it has ended, or is another agent's"}
	refusedNames    = &refusal{Status: http.StatusTooManyRequests, Code: "too_many_names", Message: "too many semaphores are in use through this agent: try again later, or raise --max-names", Retry: soon}
	refusedCrowd    = &refusal{Status: http.StatusTooManyRequests, Code: "too_many_connections", Message: "the agent has too many connections: try again later, or raise --max-connections", Retry: soon}
	refusedStopping = &refusal{Status: http.StatusServiceUnavailable, Code: "stopping", Message: "the agent is about to end: try again, with its successor", Retry: soon}
)

func invalid(message string, wrong map[string]string) *refusal {
	return &refusal{Status: http.StatusBadRequest, Code: "invalid", Message: cmp.Or(message, "some fields are wrong"), Fields: wrong}
}

// refusalOf translates an error of the library.
func refusalOf(err error) *refusal {
	r := &refusal{Status: http.StatusInternalServerError, Code: "failed", Message: plain(err), found: foundIn(err)}
	with := func(status int, code string) *refusal {
		r.Status, r.Code = status, code
		return r
	}
	switch {
	case errors.Is(err, berth.ErrInvalid):
		return with(http.StatusBadRequest, "invalid")
	case errors.Is(err, berthadmin.ErrNotFound):
		return with(http.StatusNotFound, "not_in_use")
	case errors.Is(err, berth.ErrBusy):
		return with(r.lateOr(err), "busy")
	case errors.Is(err, berth.ErrQueueFull):
		return with(r.lateOr(err), "queue_full")
	case errors.Is(err, berth.ErrTooHeavy):
		return with(http.StatusConflict, "too_heavy")
	case errors.Is(err, berth.ErrEvicted):
		return with(http.StatusConflict, "evicted")
	case errors.Is(err, berth.ErrRefused) && forbidden(err):
		return with(http.StatusForbidden, refusedRight)
	case errors.Is(err, berth.ErrUnreachable), errors.Is(err, berth.ErrRefused), errors.Is(err, berth.ErrLost):
		r.Retry = soon
		return with(http.StatusServiceUnavailable, refusedRedis)
	case errors.Is(err, context.DeadlineExceeded):
		r.Message = timeoutText(err)
		if wait, ok := errors.AsType[*berth.WaitError](err); ok {
			r.Retry = rest(wait.Place.RetryAfter)
		}
		return with(http.StatusConflict, "timeout")
	case errors.Is(err, berth.ErrClosed):
		return refusedStopping
	case errors.Is(err, berth.ErrCorrupt):
		return with(http.StatusInternalServerError, "damaged")
	}
	return r
}

// lateOr is the status of a refusal for lack of room: where a rate or a pause says when there can
// be room, it is one that HTTP clients know how to wait for.
func (r *refusal) lateOr(err error) int {
	busy, _ := errors.AsType[*berth.BusyError](err)
	if busy == nil || busy.RetryAfter == 0 {
		return http.StatusConflict
	}
	r.Retry = rest(busy.RetryAfter)
	return http.StatusTooManyRequests
}

// timeoutText tells where in the queue a wait has ended.
func timeoutText(err error) string {
	wait, ok := errors.AsType[*berth.WaitError](err)
	if !ok || !wait.Queued {
		return plain(err)
	}
	p := wait.Place
	text := fmt.Sprintf("no permit of %q within wait_ms: %d ahead in the queue, %d of %d in use", wait.Name, p.Ahead, p.InUse, p.Limit)
	if p.Paused {
		text += "; it is paused by an operator"
	}
	return text
}

// forbidden reports whether the Redis user lacks a right.
func forbidden(err error) bool {
	return redis.IsPermissionError(err) || redis.IsAuthError(err)
}

// header returns the headers of the refusal as an answer.
func (r *refusal) header() http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}}
	if r.Retry > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((time.Duration(r.Retry)+time.Second-1)/time.Second), 10)) // not before there is room
	}
	if r == refusedToken {
		h.Set("WWW-Authenticate", `Bearer realm="berth agent"`)
	}
	return h
}

func (r *refusal) body() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // it has nothing that JSON has not
	}
	return append(b, '\n')
}

// write answers a request that net/http serves.
func (r *refusal) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header())
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.body())
}

// bytes is the whole answer, on a connection that ends with it.
func (r *refusal) bytes() []byte {
	body, out := r.body(), bytes.Buffer{}
	_ = (&http.Response{
		StatusCode: r.Status, ProtoMajor: 1, ProtoMinor: 1, Header: r.header(), Close: true,
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}).Write(&out) // a buffer takes everything
	return out.Bytes()
}
