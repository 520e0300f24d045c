package berthhttp

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/berth-go/berth/internal/gate"
)

// lastWords is how long a response may still be written after the lease was lost: time
// for an error, not for the rest of the work.
const lastWords = 5 * time.Second

// service is a request that is served with a permit.
type service struct {
	permit   *gate.Permit
	log      *slog.Logger
	writer   http.ResponseWriter
	body     bool // the request has one
	switches bool // the request asks to switch protocols, so the handler may hijack its connection

	mu   sync.Mutex
	lost bool // guarded by mu; the lease was lost while the handler was at work
	over bool // guarded by mu; the handler has returned, the connection is the server's
}

// serve calls next to serve r.
func serve(p *gate.Permit, log *slog.Logger, next http.Handler, w http.ResponseWriter, r *http.Request) {
	s := &service{permit: p, log: log, writer: w, body: r.Body != nil && r.Body != http.NoBody, switches: switches(r)}
	ctx, unbind := p.Bind(r.Context(), s.lose)
	defer unbind()
	defer s.end()
	next.ServeHTTP(w, r.WithContext(ctx))
}

// switches reports whether r asks to go on without HTTP. Nothing tells whether a handler
// has hijacked the connection, and the read deadline of other requests without a body must
// not be set: the server reads then, to notice a disconnect, and would take it for one.
func switches(r *http.Request) bool {
	return r.ProtoMajor == 1 && (r.Method == http.MethodConnect || r.Header.Get("Upgrade") != "")
}

// lose unblocks what the end of the context does not: a handler that waits for its
// client.
func (s *service) lose() {
	lost := s.permit.Lost()
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost == nil || s.over { // the handler has given it back itself, or has returned
		return
	}
	s.lost = true
	s.cut(lastWords)
	s.log.Warn("berthhttp: a lease was lost while its request was served; the request's context has ended",
		"name", lost.Name, "held", time.Since(s.permit.Since).Round(time.Millisecond), "error", lost)
}

// cut makes reading fail at once, and writing after the time that is left for it. mu is
// held.
func (s *service) cut(left time.Duration) {
	now := time.Now()
	control := http.NewResponseController(s.writer)
	if s.body || s.switches {
		_ = control.SetReadDeadline(now)
	}
	_ = control.SetWriteDeadline(now.Add(left))
	if s.switches {
		time.AfterFunc(lastWords, s.cutAgain)
	}
}

// cutAgain is for a handler that has hijacked the connection: that clears the deadlines,
// also after the loss, and the handler may have set its own.
func (s *service) cutAgain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.cut(0)
	}
}

// end returns the connection to the server.
func (s *service) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	// The handler may have seen the loss before lose came here.
	if (s.body || s.switches) && (s.lost || s.permit.Lost() != nil) {
		closeAfterReply(s.writer)
	}
}

// closeAfterReply makes the net/http server close an HTTP/1 connection whose read
// deadline has passed. Otherwise, if the response had begun, the server would reuse the
// connection, take the rest of the body for a request, and serve that with a context
// that has ended. A body that is too large for http.MaxBytesReader makes it close.
func closeAfterReply(w http.ResponseWriter) {
	for {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = wrapper.Unwrap()
	}
	_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, io.NopCloser(strings.NewReader("too large")), 1))
}
