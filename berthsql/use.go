package berthsql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/berth-go/berth"
)

// use is what a connection does or has open: a call, rows, a transaction. The first takes a permit,
// unless the connection holds one, and the last that ends gives it back.
type use struct {
	conn   *conn
	lease  *berth.Lease
	ctx    context.Context //nolint:containedctx // rows and transactions outlast the call that began them
	unbind func()
}

// begin waits for a permit with mu held. Who else takes mu waits for this call in any case, as
// database/sql makes one call on a connection at a time; onLost is for those that have a permit.
func (c *conn) begin(ctx context.Context) (*use, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lost := lost(c.lease); lost != nil && c.uses > 0 { // in a transaction, say
		return nil, lost
	} else if lost != nil || c.bad { // nothing was sent, so database/sql may take another connection
		return nil, driver.ErrBadConn
	}
	if c.lease == nil {
		lease, err := c.connector.sem.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		c.lease = lease
	}
	c.uses++
	u := &use{conn: c, lease: c.lease}
	u.ctx, u.unbind = bind(ctx, c.lease)
	return u, nil
}

// end ends a use, once.
func (u *use) end() {
	if u.conn == nil {
		return
	}
	c := u.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	u.conn = nil
	u.unbind()
	c.uses--
	c.rest()
}

// during makes a call of the driver. What the call leaves open, open makes of its result: that then
// ends the use. Where open is nil, nothing is left.
func during[T any](ctx context.Context, c *conn, call func(context.Context) (T, error), open func(T, *use) T) (result T, err error) {
	u, err := c.begin(ctx)
	if err != nil {
		return result, err
	}
	left := false
	defer func() {
		if !left { // also if the driver panics
			u.end()
		}
	}()
	if result, err = call(u.ctx); err != nil {
		c.skipped = err == driver.ErrSkip //nolint:errorlint // as database/sql compares it
		return result, explain(err, u.lease)
	}
	if open != nil {
		result, left = open(result, u), true
	}
	return result, nil
}

// bind returns a child of ctx that also ends with the lease, and a function that ends it.
func bind(ctx context.Context, lease *berth.Lease) (context.Context, func()) {
	held := lease.Context()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// lost tells why a lease that was not released cannot be relied on; nil: it can, or there is none.
func lost(lease *berth.Lease) error {
	if lease == nil || lease.Valid() {
		return nil
	}
	if cause := context.Cause(lease.Context()); cause != nil {
		return cause
	}
	return berth.ErrLost // in this moment
}

// explain adds to an error that the lease was lost, unless the error tells database/sql what to do.
func explain(err error, lease *berth.Lease) error {
	lost := lost(lease)
	if lost == nil || err == nil || errors.Is(err, io.EOF) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, driver.ErrSkip) {
		return err
	}
	return fmt.Errorf("%w: %w", lost, err)
}
