package berthhttp

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// lastWords is how long a response may still be written after the lease was lost: time
// for an error, not for the rest of the work.
const lastWords = 5 * time.Second

// service is a request that is served with a permit.
type service struct {
	permit *permit
	writer http.ResponseWriter
	body   bool // the request has one

	mu   sync.Mutex
	lost bool // guarded by mu; the lease was lost while the handler was at work
	over bool // guarded by mu; the handler has returned, the connection is the server's
}

// serve calls next to serve r.
func serve(p *permit, next http.Handler, w http.ResponseWriter, r *http.Request) {
	s := &service{permit: p, writer: w, body: r.Body != nil && r.Body != http.NoBody}
	ctx, unbind := p.bind(r.Context(), s.lose)
	defer unbind()
	defer s.end()
	next.ServeHTTP(w, r.WithContext(ctx))
}

// lose unblocks what the end of the context does not: a handler that waits for its
// client.
func (s *service) lose() {
	lost := s.permit.lost()
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost == nil || s.over { // the handler has given it back itself, or has returned
		return
	}
	s.lost = true
	now := time.Now()
	control := http.NewResponseController(s.writer)
	if s.body {
		_ = control.SetReadDeadline(now)
	}
	_ = control.SetWriteDeadline(now.Add(lastWords))
	s.permit.limiter.logger.Warn("berthhttp: a lease was lost while its request was served; the request was ended",
		"name", lost.Name, "held", now.Sub(s.permit.since).Round(time.Millisecond), "error", lost)
}

// end returns the connection to the server.
func (s *service) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	// The handler may have seen the loss before lose came here.
	if s.body && (s.lost || s.permit.lost() != nil) {
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
