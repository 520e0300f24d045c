package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/berth-go/berth"
)

// limitPool makes every connection hold a permit of sem while it is checked out of a
// pool. Call it before pgxpool.NewWithConfig. The pool's Acquire then waits in line with
// all other processes, within its context.
//
// Two things to know: acquiring a second connection while holding one can deadlock, as
// with any pool. And a hijacked connection keeps its permit for ever, because the pool
// does not say what becomes of it.
func limitPool(config *pgxpool.Config, sem *berth.Semaphore) {
	config.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		lease, err := sem.Acquire(ctx)
		if err != nil {
			return true, err // the caller gets the error; the connection is fine and goes back
		}
		// A query whose lease is lost may be one too many for the database.
		stop := context.AfterFunc(lease.Context(), func() { cancelQuery(conn, lease) })
		conn.PgConn().CustomData()[permitKey] = &permit{lease, stop}
		return conn.Ping(ctx) == nil, nil // if not, the pool takes another connection
	}
	// The pool's own ping comes before PrepareConn, and would be a query without a permit.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	config.AfterRelease = giveBack
	// pgxpool does not call AfterRelease for a connection that it discards because it is
	// broken, too old, or in the middle of a transaction.
	config.BeforeClose = giveBackClosing
}

// permit is a lease, and the function that stops its watch over a connection.
type permit struct {
	lease *berth.Lease
	stop  func() bool
}

// permitKey is the key under which a checked-out connection keeps its permit.
const permitKey = "permit"

// taken removes the permit from a connection and returns it, or nil if it has none.
func taken(conn *pgx.Conn) *permit {
	data := conn.PgConn().CustomData()
	p, _ := data[permitKey].(*permit)
	delete(data, permitKey)
	return p
}

// giveBack releases the permit of a healthy connection. If it returns false, the pool
// closes the connection.
func giveBack(conn *pgx.Conn) bool {
	p := taken(conn)
	if p == nil {
		return true
	}
	// If the watch has cancelled a query, a late cancellation could hit the next one.
	untouched := p.stop()
	_ = p.lease.Release() // berth retries what fails here
	return untouched
}

// giveBackClosing releases the permit of a connection that is about to be closed. Its
// server process may still be busy: pgx cancels the query and waits for its end in the
// background, and the permit is held until then.
func giveBackClosing(conn *pgx.Conn) {
	if p := taken(conn); p != nil { // it was not idle
		p.stop()
		go func() {
			<-conn.PgConn().CleanupDone() // pgx bounds it to 15 s
			_ = p.lease.Release()
		}()
	}
}

// cancelQuery has the server cancel conn's query, if the lease was lost.
func cancelQuery(conn *pgx.Conn, lease *berth.Lease) {
	if !errors.Is(context.Cause(lease.Context()), berth.ErrLost) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = conn.PgConn().CancelRequest(ctx) // a database that cannot be reached runs no query
}
