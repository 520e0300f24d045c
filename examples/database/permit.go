package main

import (
	"context"
	"errors"
	"sync"
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
	p := &permits{sem: sem, held: map[*pgx.Conn]*permit{}}
	config.PrepareConn = p.take
	config.AfterRelease = p.giveBack
	// pgxpool does not call AfterRelease for a connection that it throws away:
	// broken, too old, or left in the middle of a transaction.
	config.BeforeClose = p.giveBackClosing
}

// permits knows which connection holds which permit.
type permits struct {
	sem  *berth.Semaphore
	mu   sync.Mutex
	held map[*pgx.Conn]*permit // guarded by mu; those checked out
}

// permit is a lease, and the end of its watch over a connection.
type permit struct {
	lease *berth.Lease
	stop  func() bool
}

// take is called with a connection that is about to be checked out. With an
// error the caller gets that, and the connection, which is fine, goes back.
func (p *permits) take(ctx context.Context, conn *pgx.Conn) (bool, error) {
	lease, err := p.sem.Acquire(ctx)
	if err != nil {
		return true, err
	}
	// Without its lease the query is one too many for the database.
	stop := context.AfterFunc(lease.Context(), func() { cancelQuery(conn, lease) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[conn] = &permit{lease, stop}
	return true, nil
}

// giveBack is called with a healthy connection; false has the pool close it.
func (p *permits) giveBack(conn *pgx.Conn) bool {
	permit := p.forget(conn)
	if permit == nil {
		return true
	}
	// Should the watch have struck, a late cancellation could hit the next user.
	untouched := permit.stop()
	_ = permit.lease.Release() // what goes wrong here, berth mends by itself
	return untouched
}

// giveBackClosing is called with a connection that is about to be closed. Its
// server process may still be busy: pgx cancels it and waits for that in the
// background, and the permit is not free until then.
func (p *permits) giveBackClosing(conn *pgx.Conn) {
	permit := p.forget(conn)
	if permit == nil {
		return // it was idle
	}
	permit.stop()
	go func() {
		<-conn.PgConn().CleanupDone() // pgx bounds it to 15 s
		_ = permit.lease.Release()
	}()
}

func (p *permits) forget(conn *pgx.Conn) *permit {
	p.mu.Lock()
	defer p.mu.Unlock()
	permit := p.held[conn]
	delete(p.held, conn)
	return permit
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
