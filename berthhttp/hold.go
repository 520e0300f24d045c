package berthhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/gate"
)

// hold is a permit that a request that was sent holds. It ends once, by finish or by
// the end of its context.
type hold struct {
	limiter *limiter
	permit  *gate.Permit
	ctx     context.Context //nolint:containedctx // the request's life
	cancel  func()
	stop    func() bool // keeps the end of ctx from ending the hold
	once    sync.Once
	method  string
	callers []uintptr
}

func newHold(l *limiter, p *gate.Permit, req *http.Request) *hold {
	h := &hold{limiter: l, permit: p, method: req.Method}
	if l.callers {
		h.callers = make([]uintptr, 24)
		h.callers = h.callers[:runtime.Callers(4, h.callers)] // above RoundTrip
	}
	h.ctx, h.cancel = p.Bind(req.Context(), nil)
	h.stop = context.AfterFunc(h.ctx, h.ended)
	return h
}

// finish ends the hold. Doing so twice does nothing.
func (h *hold) finish() {
	h.once.Do(func() {
		h.stop()
		h.cancel()
		h.permit.Release()
	})
}

// ended is finish for the end of the context, when the response is no longer awaited,
// or no longer allowed. It does not call h.stop, which may not be set yet.
func (h *hold) ended() {
	h.once.Do(func() {
		h.warn()
		h.cancel()
		h.permit.Release()
	})
}

// warn logs that a request would have kept its permit for ever.
func (h *hold) warn() {
	lost := h.permit.Lost()
	if lost == nil || lost.Reason != berth.LostMaxHold {
		return
	}
	attrs := []any{"method", h.method, "name", lost.Name, "held", time.Since(h.permit.Since).Round(time.Millisecond)}
	if len(h.callers) > 0 {
		attrs = append(attrs, "caller", caller(h.callers))
	} else {
		attrs = append(attrs, "hint", "RecordCallers shows where the request was made")
	}
	h.limiter.Logger.Warn("berthhttp: a response was not read and closed within MaxHold; its permit is taken back", attrs...)
}

// ours is how the names of this package's functions begin.
const ours = "github.com/berth-go/berth/berthhttp."

// caller returns the first function and line outside net/http and this package.
func caller(pcs []uintptr) string {
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "net/http.") && !strings.HasPrefix(f.Function, ours) || !more {
			return fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line)
		}
	}
}

// explain adds to an error of the call that a lost lease is the reason.
func (h *hold) explain(err error) error {
	lost := h.permit.Lost()
	if lost == nil || errors.Is(err, berth.ErrLost) {
		return err
	}
	return fmt.Errorf("%w: %w", err, lost)
}

// keep ties the hold to the response's body, and reports whether it did: it does not
// if there is no body to read, and nothing to settle. On error the response is closed.
func (h *hold) keep(resp *http.Response) (bool, error) {
	if resp.Body == nil || resp.Body == http.NoBody && !h.permit.Settles() {
		return false, nil
	}
	rw, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = &body{resp.Body, h, h.permit.Settles()}
		return true, nil
	}
	// From here on the connection is the caller's. The request's context no longer
	// ends it, so the lease must.
	if !h.stop() {
		_ = rw.Close()
		return false, h.explain(context.Cause(h.ctx))
	}
	c := conn{rw, h}
	h.stop = h.permit.AfterEnd(func() {
		h.ended()
		_ = rw.Close()
	})
	resp.Body = c
	if cw, ok := rw.(closeWriter); ok {
		resp.Body = halfCloser{c, cw}
	}
	return true, nil
}

// body is a response body that holds a permit.
type body struct {
	inner   io.ReadCloser
	hold    *hold
	settles bool // who has read it may settle what the request has cost, and then closes it
}

// Read implements io.Reader. The permit is given back at the end of the body, unless it settles, or at
// an error, which wraps the loss of the lease if that is its reason.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	end := errors.Is(err, io.EOF)
	if err != nil && !end {
		err = b.hold.explain(err)
	}
	if err != nil && !(end && b.settles) {
		b.hold.finish()
	}
	return n, err
}

// Close implements io.Closer, and gives the permit back unless Read has done so.
func (b *body) Close() error {
	defer b.hold.finish()
	return b.inner.Close()
}

// conn is a connection after a switch of protocols. It keeps the permit when one
// direction has ended.
type conn struct {
	io.ReadWriteCloser

	hold *hold
}

// Close implements io.Closer, and gives the permit back.
func (c conn) Close() error {
	defer c.hold.finish()
	return c.ReadWriteCloser.Close()
}

type closeWriter interface{ CloseWrite() error }

// halfCloser is a conn that can close one direction: proxies ask for it.
type halfCloser struct {
	conn
	closeWriter
}
