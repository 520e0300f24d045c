package berthsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync"

	"github.com/berth-go/berth"
)

// conn is a connection. It has the optional interfaces of a driver.Conn in whose stead a method can
// answer, where the driver lacks one, what has database/sql go on as without it. See newConn.
type conn struct {
	connector *Connector
	inner     driver.Conn

	mu          sync.Mutex // guards what follows, and inner outside a use, against onLost
	lease       *berth.Lease
	uses        int  // that have not ended
	skipped     bool // the driver has: database/sql makes, uses and closes a statement instead
	bad, closed bool
	err         error // of closing
}

// newConn adds the interfaces in whose stead nothing can: with them, database/sql converts arguments
// before it knows the statement. The old driver.Execer and Queryer count as none.
func newConn(c *conn) driver.Conn {
	x, execs := c.inner.(driver.ExecerContext)
	q, queries := c.inner.(driver.QueryerContext)
	switch {
	case execs && queries:
		return struct {
			*conn
			execer
			queryer
		}{c, execer{c, x}, queryer{c, q}}
	case execs:
		return struct {
			*conn
			execer
		}{c, execer{c, x}}
	case queries:
		return struct {
			*conn
			queryer
		}{c, queryer{c, q}}
	}
	return c
}

func (c *conn) raw() driver.Conn { return c.inner }

// onLost is called when the lease of a connection has ended, and finds nothing to do if Close ended
// it. Uses then have contexts that end.
func (c *conn) onLost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest()
}

// rest gives the permit back, or closes a connection that has lost its own, when nothing uses it. It
// is called with mu held, as the next two are.
func (c *conn) rest() {
	c.bad = c.bad || lost(c.lease) != nil
	switch {
	case c.uses > 0 || c.skipped:
	case !c.connector.perConnection:
		c.release()
	case c.bad:
		c.shut()
	}
}

// release works in the background, because what has ended should not wait for Redis. berth repeats
// what fails, and berth.Client.Close releases what is left.
func (c *conn) release() {
	if lease := c.lease; lease != nil {
		go func() { _ = lease.Release() }()
	}
	c.lease = nil
}

func (c *conn) shut() {
	if !c.closed {
		c.closed, c.err = true, c.inner.Close()
	}
}

func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.release()
	c.bad = true
	c.shut()
	return c.err
}

// IsValid is called when the connection comes back to the pool.
func (c *conn) IsValid() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipped = false
	c.rest()
	v, ok := c.inner.(driver.Validator)
	return !c.bad && (!ok || v.IsValid())
}

// ResetSession is called when the connection leaves the pool.
func (c *conn) ResetSession(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rest(); c.bad {
		return driver.ErrBadConn
	}
	if r, ok := c.inner.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *conn) Ping(ctx context.Context) error {
	p, ok := c.inner.(driver.Pinger)
	if !ok {
		return nil
	}
	_, err := during(ctx, c, func(ctx context.Context) (any, error) { return nil, p.Ping(ctx) }, nil)
	return err
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error { return check(v, c.inner) }

type execer struct {
	c     *conn
	inner driver.ExecerContext
}

func (e execer) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return during(ctx, e.c, func(ctx context.Context) (driver.Result, error) { return e.inner.ExecContext(ctx, query, args) }, nil)
}

type queryer struct {
	c     *conn
	inner driver.QueryerContext
}

func (q queryer) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return during(ctx, q.c, func(ctx context.Context) (driver.Rows, error) { return q.inner.QueryContext(ctx, query, args) }, newRows)
}

func (c *conn) Begin() (driver.Tx, error) { return c.BeginTx(context.Background(), driver.TxOptions{}) }

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return during(ctx, c, func(ctx context.Context) (driver.Tx, error) {
		b, ok := c.inner.(driver.ConnBeginTx)
		switch {
		case ok:
			return b.BeginTx(ctx, opts)
		case opts != driver.TxOptions{}:
			return nil, errors.New("berthsql: the driver has no isolation levels and no read-only transactions: ask for neither")
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		return c.inner.Begin() //nolint:staticcheck // drivers have it
	}, newTx)
}
