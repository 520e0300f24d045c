// Package berthsql limits how many queries a whole fleet runs on a database, for programs that use
// database/sql, without a change in the code that queries: NewConnector wraps the driver's connector,
// and Open replaces sql.Open. docs/sql.md has recipes, and what counts as a query.
package berthsql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"

	"github.com/berth-go/berth"
)

// Connector is a driver.Connector for sql.OpenDB, whose queries or connections hold permits.
type Connector struct {
	inner         driver.Connector
	sem           *berth.Semaphore
	perConnection bool
}

// Option configures NewConnector and Open.
type Option func(*Connector)

// PerConnection has each connection hold a permit while it is open, idle or not, instead of each
// query: for a database that allows only so many connections. So that an idle one keeps it from others
// for seconds only, call SetConnMaxIdleTime on the sql.DB. And mind that a sql.DB whose SetMaxOpenConns
// is reached opens the next connections one after the other: behind one that waits, all wait.
func PerConnection() Option { return func(c *Connector) { c.perConnection = true } }

// NewConnector returns a connector that takes a lease of sem, with its options, for each query until
// its rows are closed, each transaction until its end, and each ping and preparation of a statement.
// It sends nothing. The only error is a *berth.InvalidError.
//
// A query waits for its permit until its context ends. It then fails with the error of sem.Acquire,
// and nothing was sent to the database. A connection never has two permits, so queries in a
// transaction wait for none; queries on other connections do, also while rows are open here.
//
// When its lease is lost, a query's context ends, its error is berth.ErrLost to errors.Is, and its
// connection is closed. Commit then rolls back, and returns such an error.
func NewConnector(inner driver.Connector, sem *berth.Semaphore, opts ...Option) (*Connector, error) {
	if inner == nil {
		return nil, &berth.InvalidError{What: "connector", Reason: "it is nil: give your driver's, or use Open"}
	}
	if sem == nil {
		return nil, &berth.InvalidError{What: "semaphore", Reason: "it is nil: give one of Client.Semaphore"}
	}
	c := &Connector{inner: inner, sem: sem}
	for _, o := range opts {
		if o == nil {
			return nil, &berth.InvalidError{What: "option", Reason: "it is nil"}
		}
		o(c)
	}
	return c, nil
}

// Open is sql.Open with the permits of NewConnector. Its errors are those of both.
func Open(driverName, dataSource string, sem *berth.Semaphore, opts ...Option) (*sql.DB, error) {
	db, err := sql.Open(driverName, dataSource)
	if err != nil {
		return nil, err
	}
	_ = db.Close() // it has no connection: it was only to find the driver
	var inner driver.Connector = opener{db.Driver(), dataSource}
	if d, ok := db.Driver().(driver.DriverContext); ok {
		if inner, err = d.OpenConnector(dataSource); err != nil {
			return nil, err
		}
	}
	c, err := NewConnector(inner, sem, opts...)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

// opener is the connector of a driver that has none.
type opener struct {
	driver     driver.Driver
	dataSource string
}

func (o opener) Connect(context.Context) (driver.Conn, error) { return o.driver.Open(o.dataSource) }
func (o opener) Driver() driver.Driver                        { return o.driver }

// Connect implements driver.Connector. With PerConnection it waits for a permit until ctx ends.
func (c *Connector) Connect(ctx context.Context) (driver.Conn, error) {
	n := &conn{connector: c}
	if c.perConnection {
		lease, err := c.sem.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		n.lease = lease
		bound, unbind := bind(ctx, lease)
		defer unbind()
		ctx = bound
	}
	defer func() {
		if n.inner == nil { // it failed, or the driver panics
			n.release()
		}
	}()
	inner, err := c.inner.Connect(ctx)
	if err != nil {
		return nil, explain(err, n.lease)
	}
	n.inner = inner
	if n.lease != nil {
		context.AfterFunc(n.lease.Context(), n.onLost)
	}
	return newConn(n), nil
}

// Driver implements driver.Connector: it returns the wrapped driver.
func (c *Connector) Driver() driver.Driver { return c.inner.Driver() }

// Close implements io.Closer, for sql.DB.Close: it closes the wrapped connector, if that can be closed.
func (c *Connector) Close() error {
	if closer, ok := c.inner.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

// Raw returns the driver's connection from what sql.Conn.Raw hands to its function, and anything else
// as it is. What is done with it takes no permit.
func Raw(driverConn any) any {
	if c, ok := driverConn.(interface{ raw() driver.Conn }); ok {
		return c.raw()
	}
	return driverConn
}
