package agent

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	mostHeader = 16 << 10
	// idleTimeout is how long a connection may be open without a request.
	idleTimeout = time.Minute
	// shutdown is how long answers about semaphores have to end.
	shutdown = 5 * time.Second
	// standing is how many connections there can be above Options.Connections: each is asked for
	// its request, so that it reads why it is refused, and the health is told.
	standing = 64
)

// Serve serves connections of l until ctx ends. Then it closes l if Options.Drain says that requests
// can go on, and stops the agent once they have ended. Otherwise it accepts connections until the
// agent has stopped, and refuses them.
func (a *Agent) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler: a, MaxHeaderBytes: mostHeader, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		ErrorLog:    log.New(io.Discard, "", 0), // only clients that broke off
		ConnContext: seat,
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(&bounded{Listener: l, agent: a}) }()
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go a.watchRedis(watching)
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		if a.options.Drain > 0 {
			// A successor can listen. Where systemd has given both a socket that blocks, this returns
			// with the next connection.
			go l.Close()
			a.drain()
		}
	}
	a.Stop()
	timeout, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdown)
	defer cancel()
	if srv.Shutdown(timeout) != nil {
		srv.Close()
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// drain refuses new requests, and returns when those that wait or hold have ended, or after
// Options.Drain.
func (a *Agent) drain() {
	a.mu.Lock()
	a.draining = true // under mu: no request enters after it
	a.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.connections.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(a.options.Drain):
	}
}

// bounded is a listener that accepts a bounded number of connections.
type bounded struct {
	net.Listener
	agent *Agent
	open  atomic.Int64
}

// Accept implements net.Listener. A connection too many stands. Where too many of these stand, it
// is told so, and closed: it may not read that.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		above := b.open.Add(1) - int64(b.agent.options.Connections)
		if above <= standing {
			b.agent.counts.connections.Inc()
			return &counted{Conn: conn, stands: above > 0, closed: sync.OnceFunc(func() {
				b.open.Add(-1)
				b.agent.counts.connections.Dec()
			})}, nil
		}
		b.open.Add(-1)
		b.agent.counts.refused(refusedCrowd)
		_ = write(conn, refusedCrowd.bytes())
		conn.Close()
	}
}

// counted is a connection that counts itself as closed.
type counted struct {
	net.Conn
	stands bool // it was one too many
	closed func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.closed()
	return c.Conn.Close()
}

// connKey is the key of a context's value: the connection.
type connKey struct{}

// seat tells the requests of a connection which it is.
func seat(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// connOf returns the connection of r; nil: it has none.
func connOf(r *http.Request) net.Conn {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	return conn
}

// stands reports whether the connection of r does.
func stands(r *http.Request) bool {
	c, ok := connOf(r).(*counted)
	return ok && c.stands
}

// unwrap returns the connection as it was accepted.
func unwrap(conn net.Conn) net.Conn {
	if c, ok := conn.(*counted); ok {
		return c.Conn
	}
	return conn
}
