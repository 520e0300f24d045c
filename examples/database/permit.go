package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/berth-go/berth"
)

// limitPool makes every connection that is checked out of a pool hold a permit
// of sem for as long. Call it before pgxpool.NewWithConfig. Acquire then waits
// in line, fleet-wide, within its context.
//
// Two things to know. Whoever acquires a second connection while holding one
// can wait for itself, as with any pool. And a hijacked connection keeps its
// permit for ever: the pool tells nobody what becomes of it.
func limitPool(config *pgxpool.Config, sem *berth.Semaphore) {
	config.PrepareConn = func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		lease, err := sem.Acquire(ctx)
		if err != nil {
			return true, err // the caller gets it, and the connection, which is fine, goes back
		}
		// Without its lease the query is one too many for the database.
		stop := context.AfterFunc(lease.Context(), func() { cancelQuery(conn, lease) })
		conn.PgConn().CustomData()[permitKey] = &permit{lease, stop}
		return true, nil
	}
	config.AfterRelease = giveBack
	// pgxpool does not call AfterRelease for a connection that it throws away:
	// broken, too old, or left in the middle of a transaction.
	config.BeforeClose = giveBackClosing
}

// permit is a lease, and the end of its watch over a connection.
type permit struct {
	lease *berth.Lease
	stop  func() bool
}

// permitKey is where a connection that is checked out keeps its permit.
const permitKey = "permit"

// taken takes the permit from a connection; nil: it has none.
func taken(conn *pgx.Conn) *permit {
	data := conn.PgConn().CustomData()
	p, _ := data[permitKey].(*permit)
	delete(data, permitKey)
	return p
}

// giveBack is called with a healthy connection; false has the pool close it.
func giveBack(conn *pgx.Conn) bool {
	p := taken(conn)
	if p == nil {
		return true
	}
	// Should the watch have struck, a late cancellation could hit the next user.
	untouched := p.stop()
	_ = p.lease.Release() // what goes wrong here, berth mends by itself
	return untouched
}

// giveBackClosing is called with a connection that is about to be closed. Its
// server process may still be busy: pgx cancels it and waits for that in the
// background, and the permit is not free until then.
func giveBackClosing(conn *pgx.Conn) {
	p := taken(conn)
	if p == nil {
		return // it was idle
	}
	p.stop()
	go func() {
		<-conn.PgConn().CleanupDone() // pgx bounds it to 15 s
		_ = p.lease.Release()
	}()
}

// cancelQuery has the server stop what conn is doing, if the lease was lost.
func cancelQuery(conn *pgx.Conn, lease *berth.Lease) {
	if !errors.Is(context.Cause(lease.Context()), berth.ErrLost) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = conn.PgConn().CancelRequest(ctx) // a database that is away runs no query either
}
