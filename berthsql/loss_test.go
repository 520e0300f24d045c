package berthsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthsql"
)

// modes are for what holds for permits of queries and of connections.
var modes = map[string][]berthsql.Option{"query": nil, "connection": {berthsql.PerConnection()}}

// eachMode runs body in both modes.
func eachMode(t *testing.T, limit int, body func(e *env, opts []berthsql.Option)) {
	t.Helper()
	for name, opts := range modes {
		t.Run(name, func(t *testing.T) { exactly(t, limit, func(e *env) { body(e, opts) }) })
	}
}

// closed fails unless the connection was closed, and the next query gets another one.
func (e *env) closed(db *sql.DB) {
	e.Helper()
	e.settle()
	if _, _, open, _ := e.d.counts(); open != 0 {
		e.Errorf("%d connections are open", open)
	}
	e.d.asked()
	e.Must(second(db.ExecContext(e.Ctx, "do")))
	if got := e.d.asked(); got != "ExecContext do \nIsValid" {
		e.Errorf("the driver was asked\n%s", got)
	}
}

func TestLostLeaseEndsTheQueryAndTheConnection(t *testing.T) {
	eachMode(t, 1, func(e *env, opts []berthsql.Option) {
		db := e.open(opts...)
		done := e.exec(e.Ctx, db, "sleep")
		<-e.d.working
		e.evict()
		err := <-done
		e.WantErr(err, berth.ErrLost)
		e.WantErr(err, berth.ErrEvicted)
		if lost, ok := errors.AsType[*berth.LostError](err); !ok || lost.Reason != berth.LostEvicted {
			e.Errorf("error %v", err)
		}
		e.closed(db)
	})
}

// Who holds on to the connection learns that it is bad, and the driver hears no more of it.
func TestNothingIsQueriedOnABadConnection(t *testing.T) {
	eachMode(t, 1, func(e *env, opts []berthsql.Option) {
		db := e.open(opts...)
		c, err := db.Conn(e.Ctx)
		e.Must(err)
		done := e.exec(e.Ctx, c, "sleep")
		<-e.d.working
		e.evict()
		e.WantErr(<-done, berth.ErrLost)
		e.d.asked()
		e.WantErr(second(c.ExecContext(e.Ctx, "do")), driver.ErrBadConn)
		if got := e.d.asked(); got != "Close" && got != "" {
			e.Errorf("the driver was asked\n%s", got)
		}
		e.out(0)
	})
}

func TestLostLeaseEndsRows(t *testing.T) {
	eachMode(t, 1, func(e *env, opts []berthsql.Option) {
		db := e.open(opts...)
		rows, err := db.QueryContext(e.Ctx, "select")
		e.Must(err)
		if !rows.Next() {
			e.Fatal(rows.Err())
		}
		e.evict()
		if rows.Next() {
			e.Error("there is another row")
		}
		e.WantErr(rows.Err(), berth.ErrLost)
		e.closed(db)
	})
}

// After the loss nothing in the transaction goes on, and COMMIT is not sent.
func TestLostLeaseRollsTheTransactionBack(t *testing.T) {
	eachMode(t, 1, func(e *env, opts []berthsql.Option) {
		db := e.open(opts...)
		tx, err := db.BeginTx(e.Ctx, nil)
		e.Must(err)
		e.evict()
		e.d.asked()
		e.WantErr(second(tx.ExecContext(e.Ctx, "do")), berth.ErrLost)
		e.WantErr(second(tx.QueryContext(e.Ctx, "select")), berth.ErrLost)
		e.WantErr(second(tx.PrepareContext(e.Ctx, "do")), berth.ErrLost)
		e.WantErr(tx.Commit(), berth.ErrLost)
		if got := e.d.asked(); got != "Rollback\nClose" {
			e.Errorf("the driver was asked\n%s", got)
		}
		e.closed(db)
	})
}

// What was done before the loss was noticed is told as done.
func TestDoneIsDoneAfterALoss(t *testing.T) {
	eachMode(t, 1, func(e *env, opts []berthsql.Option) {
		db := e.open(opts...)
		done := e.exec(e.Ctx, db, "sleep deaf") // the driver does not follow the context
		<-e.d.working
		e.evict()
		e.d.awake <- struct{}{}
		e.Must(<-done)
		e.closed(db)
	})
}

// A suspended or cut-off process stops at the trust deadline.
func TestConnectionsEndWithoutRedis(t *testing.T) {
	eachMode(t, 1, func(e *env, opts []berthsql.Option) {
		p := e.Peer()
		e.sem = p.Sem(1)
		db := e.open(opts...)
		done := e.exec(e.Ctx, db, "sleep")
		<-e.d.working
		p.Net.Down()
		start := time.Now()
		e.WantErr(<-done, berth.ErrLost)
		e.Within(start, 0, berth.DefaultTTL, "ended")
		p.Net.Up()
		e.Pass(time.Minute)
		e.closed(db)
	})
}

func TestMaxHoldEndsRowsThatAreNeverClosed(t *testing.T) {
	exactly(t, 1, func(e *env) {
		var err error
		e.sem, err = e.sem.With(berth.MaxHold(time.Minute))
		e.Must(err)
		db := e.open()
		rows, err := db.QueryContext(e.Ctx, "select")
		e.Must(err)
		start := time.Now()
		e.Must(second(db.ExecContext(e.Ctx, "do")))
		e.Within(start, time.Minute, time.Minute, "the next query had its turn")
		if rows.Next() {
			e.Error("the rows go on")
		}
		e.WantErr(rows.Err(), berth.ErrLost)
	})
}

func TestClosedClientEndsQueries(t *testing.T) {
	eachMode(t, 1, func(e *env, opts []berthsql.Option) {
		p := e.Peer()
		e.sem = p.Sem(1)
		db := e.open(opts...)
		done := e.exec(e.Ctx, db, "sleep")
		<-e.d.working
		e.Must(p.Close())
		e.WantErr(<-done, berth.ErrClosed)
		e.WantErr(second(db.ExecContext(e.Ctx, "do")), berth.ErrClosed)
		if _, _, open, _ := e.d.counts(); open > 1 {
			e.Errorf("%d connections are open", open)
		}
	})
}

// With a permit for each connection.

func TestConnectionsKeepTheLimit(t *testing.T) {
	each(t, 2, func(e *env) {
		var all []<-chan error
		for range 2 { // processes, whose pools are larger than the limit
			e.sem = e.Peer().Sem(2)
			db := e.open(berthsql.PerConnection())
			db.SetConnMaxIdleTime(time.Millisecond)
			for range 5 {
				done := make(chan error, 1)
				all = append(all, done)
				go func() {
					for range 3 {
						if err := e.Timely(func() error { return second(db.ExecContext(e.Ctx, "do ?", 1)) }); err != nil {
							done <- err
						}
					}
					done <- nil
				}()
			}
		}
		for _, done := range all {
			e.Must(<-done)
		}
		if _, _, _, most := e.d.counts(); most > 2 {
			e.Errorf("%d connections were open at once", most)
		}
	})
}

func TestConnectionKeepsItsPermitWhileIdle(t *testing.T) {
	exactly(t, 1, func(e *env) {
		db := e.open(berthsql.PerConnection())
		e.Must(second(db.ExecContext(e.Ctx, "do")))
		e.Must(commit(e.Ctx, db))
		e.out(1)
		db.SetMaxIdleConns(-1) // closes it
		e.out(0)
		db.SetMaxIdleConns(2)
		db.SetConnMaxIdleTime(2 * time.Second)
		e.Must(second(db.ExecContext(e.Ctx, "do")))
		start := time.Now()
		l := e.Hold(e.sem)
		e.Within(start, 2*time.Second, 4*time.Second, "an idle connection gave way")
		e.Release(l)
	})
}

func TestLostLeaseClosesAnIdleConnection(t *testing.T) {
	exactly(t, 1, func(e *env) {
		db := e.open(berthsql.PerConnection())
		s, err := db.PrepareContext(e.Ctx, "do")
		e.Must(err)
		e.Must(second(s.ExecContext(e.Ctx)))
		e.d.asked()
		e.evict()
		if got := e.d.asked(); got != "Close" {
			e.Errorf("the driver was asked %q, want Close", got)
		}
		e.Must(second(s.ExecContext(e.Ctx))) // on another connection
		if got := e.d.asked(); got != "PrepareContext do\nstmt ExecContext do \nIsValid" {
			e.Errorf("the driver was asked\n%s", got)
		}
		e.Must(s.Close())
		if _, _, open, _ := e.d.counts(); open != 1 {
			e.Errorf("%d connections are open", open)
		}
	})
}

// A connection that somebody has taken out of the pool, and that does nothing, is closed as well.
func TestLostLeaseClosesAConnectionThatIsTakenOut(t *testing.T) {
	exactly(t, 1, func(e *env) {
		db := e.open(berthsql.PerConnection())
		c, err := db.Conn(e.Ctx)
		e.Must(err)
		rows, err := c.QueryContext(e.Ctx, "select")
		e.Must(err)
		e.evict()
		if _, _, open, _ := e.d.counts(); open != 1 {
			e.Error("the connection was closed below rows that are open")
		}
		e.Must(rows.Close())
		if _, _, open, _ := e.d.counts(); open != 0 {
			e.Error("the connection is open without a permit")
		}
		if err := second(c.ExecContext(e.Ctx, "do")); err == nil {
			e.Error("no error on a closed connection")
		}
	})
}

func TestFailedConnectGivesThePermitBack(t *testing.T) {
	exactly(t, 1, func(e *env) {
		db := e.open(berthsql.PerConnection())
		for _, how := range []error{errFake, nil} {
			e.d.refuse(how)
			func() {
				defer func() { recover() }()
				e.WantErr(db.PingContext(e.Ctx), errFake)
			}()
			e.out(0)
		}
	})
}

func TestContextEndsTheWaitForAConnection(t *testing.T) {
	exactly(t, 1, func(e *env) {
		db := e.open(berthsql.PerConnection())
		held := e.Hold(e.sem)
		ctx, cancel := context.WithTimeout(e.Ctx, time.Second)
		defer cancel()
		err := second(db.ExecContext(ctx, "do"))
		e.WantErr(err, context.DeadlineExceeded)
		if _, ok := errors.AsType[*berth.WaitError](err); !ok {
			e.Errorf("error %v, want a WaitError", err)
		}
		if _, _, _, most := e.d.counts(); most != 0 {
			e.Error("a connection was opened without a permit")
		}
		e.Release(held)
		e.Must(second(db.ExecContext(e.Ctx, "do")))
	})
}
