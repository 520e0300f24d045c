package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/run"
)

const (
	// readTimeout is how long a request may take to come. A busy machine needs some of it.
	readTimeout = 30 * time.Second
	// farewell bounds how long, and mostUnread how much, is read of what a refused client
	// still sends: it would not see the refusal if the connection were reset.
	farewell   = time.Second
	mostUnread = 1 << 20
)

// Why a hold ends on the client's or the agent's side.
var (
	errGone     = errors.New("the connection has ended")
	errDone     = errors.New("the client is done")
	errSilent   = errors.New("the client was silent for longer than its beat_ms")
	errSlow     = errors.New("the client does not read")
	errStopping = errors.New("the agent is about to end")
)

// hold is one request on a connection of its own, from its body to its end.
type hold struct {
	agent *Agent
	conn  net.Conn
	input io.Reader // what the client sends
	*request

	ctx    context.Context         //nolint:containedctx // the connection's
	cancel context.CancelCauseFunc // with one of the errors above; the first one counts

	held      atomic.Bool                  // a permit is held, and beats are due
	leases    atomic.Pointer[berth.Leases] // while it is held; nil: not yet
	unsettled chan unsettledLine           // what the client is to be told
	begun     bool                         // the status was written, and lines follow
	queued    bool                         // it counts as waiting
}

// take makes a hold of a connection, and returns when the connection is the hold's.
func (a *Agent) take(w http.ResponseWriter, r *http.Request) {
	if !a.begin() {
		w.Header().Set("Connection", "close") // a successor may have others
		refusedStopping.write(w)
		return
	}
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil { // HTTP/2, which is not served
		a.connections.Done()
		(&refusal{Status: http.StatusHTTPVersionNotSupported, Code: "invalid", Message: "use HTTP/1.1"}).write(w)
		return
	}
	h := &hold{agent: a, conn: conn, unsettled: make(chan unsettledLine, 1)}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	body := &upload{length: r.ContentLength, chunked: r.ContentLength < 0, buf: buf.Reader, waits: r.Header.Get("Expect") != ""}
	go func() { // so that net/http forgets the request
		defer a.connections.Done()
		h.run(body)
	}()
}

// begin counts a connection that becomes a hold's, unless the agent ends. Under mu, so that nobody
// who waits for the holds finds none and one that begins.
func (a *Agent) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.draining || a.running.Err() != nil {
		return false
	}
	a.connections.Add(1)
	return true
}

// run serves the connection to its end.
func (h *hold) run(body *upload) {
	defer h.cancel(nil)
	defer h.conn.Close()
	refused := h.read(body)
	if refused != nil {
		h.refuse(refused)
		h.drain()
		return
	}
	for i := range h.limits {
		name := h.limits[i].name
		if refused = h.agent.enter(name); refused != nil {
			h.refuse(refused)
			return
		}
		defer h.agent.leave(name)
	}
	h.agent.connections.Go(h.listen)
	h.serve()
}

// serve acquires the permits and looks after them.
func (h *hold) serve() {
	leases, err := h.acquire()
	h.agent.counts.waits(h, false)
	if err != nil {
		h.refuse(h.notGranted(err))
		return
	}
	h.agent.counts.granted()
	h.leases.Store(&leases)
	h.agent.holds.Store(leases[0].ID(), h)
	defer h.agent.holds.Delete(leases[0].ID())
	lost, free := leases.Context()
	defer free()
	k := &kept{hold: h, leases: leases, lost: lost, over: lost.Done()}
	k.keep()
}

// acquire waits for all permits, or gets none, until the connection ends. The agent's end is one, too.
func (h *hold) acquire() (berth.Leases, error) {
	defer context.AfterFunc(h.agent.running, func() { h.cancel(errStopping) })()
	ctx, cancel := h.ctx, func() {}
	if h.wait != nil && *h.wait > 0 {
		ctx, cancel = context.WithTimeout(h.ctx, *h.wait)
	}
	defer cancel()
	h.introduce(peerOf(h.conn))
	leases, err := internals.AcquireEach(ctx, len(h.limits), func(ctx context.Context, i int) (*berth.Lease, error) {
		return h.acquireOne(ctx, &h.limits[i])
	})
	h.agent.learn(err)
	return leases, err
}

// acquireOne acquires as the request says. If it has a time to wait, that outlasts an outage of Redis.
func (h *hold) acquireOne(ctx context.Context, l *limited) (*berth.Lease, error) {
	sem, err := h.agent.client.Semaphore(l.name, l.limit)
	if err != nil {
		return nil, err
	}
	options := func(served func()) []berth.AcquireOption {
		return slices.Concat(h.options, l.options, []berth.AcquireOption{
			berth.Label(h.label), internals.For(h.pid, h.more), berth.OnQueued(func(p berth.Place) { served(); h.tellPlace(l, p) }),
		})
	}
	acquire := sem.Acquire
	if h.wait != nil && *h.wait == 0 {
		acquire = sem.TryAcquire
	}
	if h.wait == nil || *h.wait == 0 {
		var lease *berth.Lease
		err := h.agent.options.Health.UnlessRefused(ctx, func(ctx context.Context, served func()) (err error) {
			lease, err = acquire(ctx, options(served)...)
			return err
		})
		return lease, err
	}
	lease, err := run.Insist(ctx, func() (*berth.Lease, error) { return acquire(ctx, options(func() {})...) })
	if errors.Is(err, context.DeadlineExceeded) {
		err = h.agent.late(*h.wait, err)
	}
	return lease, err
}

// tellPlace runs in the goroutine of the acquire, which goes on when the line is written. A
// client that does not read is soon ended by it.
func (h *hold) tellPlace(l *limited, p berth.Place) {
	h.agent.learn(nil)
	h.agent.counts.waits(h, true)
	line := queuedLine{
		Event: "queued", Ahead: p.Ahead, InUse: p.InUse, Limit: limitOf(p.Limit), Paused: p.Paused,
		Rate: rateOf(&p.Status), Retry: rest(p.RetryAfter),
	}
	if h.several {
		line.Name = l.name
	}
	h.say(line)
}

// notGranted is what a client is told that got no permit. One that has broken off is told nothing.
func (h *hold) notGranted(err error) *refusal {
	switch cause := context.Cause(h.ctx); {
	case cause == nil:
		return refusalOf(err)
	case errors.Is(cause, errStopping):
		return refusedStopping
	case errors.Is(cause, errDone):
		return refusedDone // it may still read
	}
	return nil
}

const (
	head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
	// lineSize is more than most lines have.
	lineSize = 256
)

// say writes a line, and before the first one the status. If the client does not make room for
// it, the hold is over.
func (h *hold) say(line any) {
	out := bytes.NewBuffer(make([]byte, 0, lineSize))
	if !h.begun {
		out.WriteString(head)
		h.begun = true
	}
	_ = json.NewEncoder(out).Encode(line) // lines have nothing that JSON has not
	h.send(out.Bytes())
}

func (h *hold) send(b []byte) {
	switch err := write(unwrap(h.conn), b); {
	case err == nil:
	case errors.Is(err, unix.EAGAIN), errors.Is(err, io.ErrShortWrite), errors.Is(err, os.ErrDeadlineExceeded):
		h.cancel(errSlow)
	default:
		h.cancel(errGone) // listen sees it, too
	}
}

// refuse tells the client why it gets no permit; nil: nobody is there.
func (h *hold) refuse(r *refusal) {
	h.agent.counts.refused(r)
	switch {
	case r == nil:
	case h.begun:
		h.say(refusedLine{"refused", *r})
	default:
		h.send(r.bytes())
	}
}

// drain reads what a client still sends that was refused before it had sent everything, and
// then lets the connection end.
func (h *hold) drain() {
	if half, ok := unwrap(h.conn).(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		h.conn.SetReadDeadline(time.Now().Add(farewell))
		_, _ = io.CopyN(io.Discard, h.conn, mostUnread)
	}
}

// cause is why the hold ended: the first reason.
func (h *hold) cause() error { return cmp.Or(context.Cause(h.ctx), errGone) }
