package berthsql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthsql"
)

func TestQueriesOfAllProcessesKeepTheLimit(t *testing.T) {
	each(t, 3, func(e *env) {
		close(e.d.awake)
		var all sync.WaitGroup
		for range 2 { // processes
			e.sem = e.Peer().Sem(3)
			db := e.open()
			for range 6 {
				all.Go(func() {
					for range e.Many(100) {
						e.Must(e.Timely(func() error { return second(db.ExecContext(e.Ctx, "do ?", 1)) }))
						e.Must(e.Timely(func() error { return commit(e.Ctx, db) }))
						e.Must(e.Timely(func() error {
							var n int
							return db.QueryRowContext(e.Ctx, "select").Scan(&n, new(string))
						}))
					}
				})
			}
		}
		all.Wait()
		if running, most, _, _ := e.d.counts(); running != 0 || most > 3 {
			e.Errorf("%d queries ran at once, and %d still do", most, running)
		}
		e.out(0)
	})
}

func commit(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	return errors.Join(second(tx.ExecContext(ctx, "do ?", 1)), tx.Commit())
}

// users are all ways to have something at work on a connection; each returns what ends it.
var users = map[string]func(e *env, db *sql.DB) (end func()){
	"rows": func(e *env, db *sql.DB) func() {
		rows, err := db.QueryContext(e.Ctx, "select")
		e.Must(err)
		rows.Next()
		return func() { rows.Close() }
	},
	"rows of a statement": func(e *env, db *sql.DB) func() {
		s, err := db.PrepareContext(e.Ctx, "select")
		e.Must(err)
		rows, err := s.QueryContext(e.Ctx)
		e.Must(err)
		return func() {
			s.Close()
			rows.Close()
		}
	},
	"rows that are read": func(e *env, db *sql.DB) func() {
		rows, err := db.QueryContext(e.Ctx, "select")
		e.Must(err)
		return func() {
			for rows.Next() {
			}
		}
	},
	"transaction": func(e *env, db *sql.DB) func() {
		tx, err := db.BeginTx(e.Ctx, nil)
		e.Must(err)
		e.Must(second(tx.ExecContext(e.Ctx, "do")))
		rows, err := tx.QueryContext(e.Ctx, "select")
		e.Must(err)
		s, err := tx.PrepareContext(e.Ctx, "do ?")
		e.Must(err)
		e.Must(second(s.ExecContext(e.Ctx, 1)))
		e.Must(second(tx.ExecContext(e.Ctx, "do ?", 1)))
		return func() {
			rows.Close()
			e.Must(tx.Commit())
		}
	},
	"transaction rolled back": func(e *env, db *sql.DB) func() {
		tx, err := db.BeginTx(e.Ctx, nil)
		e.Must(err)
		return func() { e.Must(tx.Rollback()) }
	},
	"transaction whose context ends": func(e *env, db *sql.DB) func() {
		ctx, cancel := context.WithCancel(e.Ctx)
		_, err := db.BeginTx(ctx, nil)
		e.Must(err)
		return cancel
	},
	"rows whose context ends": func(e *env, db *sql.DB) func() {
		ctx, cancel := context.WithCancel(e.Ctx)
		_, err := db.QueryContext(ctx, "select")
		e.Must(err)
		return cancel
	},
	"query": func(e *env, db *sql.DB) func() {
		done := e.exec(e.Ctx, db, "sleep")
		<-e.d.working
		return func() {
			e.d.awake <- struct{}{}
			e.Must(<-done)
		}
	},
	"query whose context ends": func(e *env, db *sql.DB) func() {
		ctx, cancel := context.WithCancel(e.Ctx)
		done := e.exec(ctx, db, "sleep")
		<-e.d.working
		return func() {
			cancel()
			e.WantErr(<-done, context.Canceled)
		}
	},
	"connection": func(e *env, db *sql.DB) func() {
		c, err := db.Conn(e.Ctx)
		e.Must(err)
		rows, err := c.QueryContext(e.Ctx, "select")
		e.Must(err)
		e.Must(second(c.ExecContext(e.Ctx, "do"))) // while rows are open: no second permit
		return func() {
			rows.Close()
			e.out(0) // a connection that does nothing holds none
			e.Must(c.PingContext(e.Ctx))
			e.Must(c.Close())
		}
	},
}

func TestPermitIsHeldUntilTheEnd(t *testing.T) {
	for what, use := range users {
		t.Run(what, func(t *testing.T) {
			exactly(t, 1, func(e *env) {
				db := e.open()
				end := use(e, db)
				e.out(1)
				other := e.exec(e.Ctx, db, "do")
				e.UntilWaiting(1)
				end()
				e.Must(<-other)
				e.out(0)
			})
		})
	}
}

func TestFailuresGiveThePermitBack(t *testing.T) {
	for what, fail := range map[string]func(e *env, db *sql.DB) error{
		"exec":          func(e *env, db *sql.DB) error { return second(db.ExecContext(e.Ctx, "fail")) },
		"exec with arg": func(e *env, db *sql.DB) error { return second(db.ExecContext(e.Ctx, "fail", struct{}{})) },
		"query":         func(e *env, db *sql.DB) error { return second(db.QueryContext(e.Ctx, "fail")) },
		"prepare":       func(e *env, db *sql.DB) error { return second(db.PrepareContext(e.Ctx, "no statement")) },
		"bad":           func(e *env, db *sql.DB) error { return second(db.ExecContext(e.Ctx, "bad")) },
		"commit": func(e *env, db *sql.DB) error {
			tx, err := db.BeginTx(e.Ctx, nil)
			e.Must(err)
			e.d.breakAll()
			return tx.Commit()
		},
		"rollback": func(e *env, db *sql.DB) error {
			tx, err := db.BeginTx(e.Ctx, nil)
			e.Must(err)
			e.d.breakAll()
			return tx.Rollback()
		},
		"panic": func(e *env, db *sql.DB) error {
			return panics(func() error { return second(db.QueryContext(e.Ctx, "panic")) })
		},
		"panic while it prepares": func(e *env, db *sql.DB) error {
			return panics(func() error { return second(db.PrepareContext(e.Ctx, "panic while prepared ?")) })
		},
		"panic as it begins": func(e *env, db *sql.DB) error {
			return panics(func() error { return second(db.BeginTx(e.Ctx, &sql.TxOptions{Isolation: 7})) })
		},
	} {
		for kind, dial := range connections {
			t.Run(what+", "+kind, func(t *testing.T) {
				exactly(t, 1, func(e *env) {
					e.d.dial = dial
					db := e.open()
					if fail(e, db) == nil {
						e.Error("no error")
					}
					e.out(0)
					e.Must(second(db.ExecContext(e.Ctx, "do")))
				})
			})
		}
	}
}

// panics makes an error of a panic.
func panics(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// A driver that skips has database/sql make a statement for the query: all of that is one query.
func TestSkippedQueryTakesOnePermit(t *testing.T) {
	exactly(t, 1, func(e *env) {
		granted := 0
		e.sem = e.Peer(berth.Hook(berth.Hooks{AcquireDone: func(context.Context, berth.AcquireInfo, *berth.Lease, error) { granted++ }})).Sem(1)
		e.d.dial = connections["skips"]
		db := e.open()
		for i, do := range []func() error{
			func() error { return second(db.ExecContext(e.Ctx, "do ?", 1)) },
			func() error { return db.QueryRowContext(e.Ctx, "select ?", 1).Scan(new(int), new(string)) },
			func() error { return second(db.ExecContext(e.Ctx, "do", "one too many")) },
			func() error {
				return panics(func() error { return second(db.ExecContext(e.Ctx, "panic while prepared ?", 1)) })
			},
		} {
			if err := do(); (err != nil) != (i >= 2) {
				e.Errorf("query %d: %v", i, err)
			}
			e.out(0)
			if granted != i+1 {
				e.Errorf("%d permits for %d queries", granted, i+1)
			}
		}
		c, err := db.Conn(e.Ctx)
		e.Must(err)
		e.Must(second(c.ExecContext(e.Ctx, "do ?", 1)))
		e.out(0) // though the connection is not back in its pool
		e.Must(c.Close())
	})
}

func TestContextEndsTheWait(t *testing.T) {
	for what, do := range map[string]func(ctx context.Context, db *sql.DB) error{
		"exec":     func(ctx context.Context, db *sql.DB) error { return second(db.ExecContext(ctx, "do")) },
		"query":    func(ctx context.Context, db *sql.DB) error { return second(db.QueryContext(ctx, "select")) },
		"begin":    func(ctx context.Context, db *sql.DB) error { return second(db.BeginTx(ctx, nil)) },
		"ping":     func(ctx context.Context, db *sql.DB) error { return db.PingContext(ctx) },
		"prepare":  func(ctx context.Context, db *sql.DB) error { return second(db.PrepareContext(ctx, "do")) },
		"with arg": func(ctx context.Context, db *sql.DB) error { return second(db.ExecContext(ctx, "do ?", 1)) },
	} {
		t.Run(what, func(t *testing.T) {
			exactly(t, 1, func(e *env) {
				db := e.open()
				e.Must(db.PingContext(e.Ctx))
				e.out(0)
				held := e.Hold(e.sem)
				e.d.asked()
				ctx, cancel := context.WithTimeout(e.Ctx, time.Second)
				defer cancel()
				err := do(ctx, db)
				e.WantErr(err, context.DeadlineExceeded)
				wait, ok := errors.AsType[*berth.WaitError](err)
				if !ok || wait.Place.InUse != 1 {
					e.Errorf("error %v, want a WaitError with its place", err)
				}
				if asked := e.d.asked(); asked != "ResetSession\nIsValid" {
					e.Errorf("without a permit the driver was asked\n%s", asked)
				}
				e.Release(held)
				e.Must(second(db.ExecContext(e.Ctx, "do")))
				if s := db.Stats(); s.OpenConnections != 1 {
					e.Errorf("%d connections are open: that of the wait was not kept", s.OpenConnections)
				}
			})
		})
	}
}

func TestNothingIsQueriedWithoutRedis(t *testing.T) {
	exactly(t, 1, func(e *env) {
		p := e.Peer()
		e.sem = p.Sem(1)
		db := e.open()
		p.Net.Down()
		start := time.Now()
		e.WantErr(second(db.ExecContext(e.Ctx, "do")), berth.ErrUnreachable)
		e.Within(start, 0, 5*time.Second, "told")
		if asked := e.d.asked(); asked != "IsValid" {
			e.Errorf("the driver was asked\n%s", asked)
		}
	})
}

// Values of a query's context reach the driver, as do its deadline and its end.
func TestDriverGetsTheContextOfTheQuery(t *testing.T) {
	exactly(t, 1, func(e *env) {
		db := e.open()
		ctx, cancel := context.WithTimeout(context.WithValue(e.Ctx, keyOf{}, "value"), time.Minute)
		defer cancel()
		e.Must(second(db.ExecContext(ctx, "do")))
		e.d.mu.Lock()
		got := e.d.ctx
		e.d.mu.Unlock()
		want, _ := ctx.Deadline()
		if until, ok := got.Deadline(); !ok || !until.Equal(want) || got.Value(keyOf{}) != "value" {
			e.Errorf("deadline %v, %v, value %v", until, ok, got.Value(keyOf{}))
		}
		if got.Err() == nil {
			e.Error("it goes on after the query")
		}
	})
}

type keyOf struct{}

func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	registered.Do(register)
	sem := new(berth.Semaphore)
	for what, err := range map[string]error{
		"connector":       second(berthsql.NewConnector(nil, sem)),
		"semaphore":       second(berthsql.NewConnector(newDatabase(), nil)),
		"option":          second(berthsql.NewConnector(newDatabase(), sem, nil)),
		"semaphore, Open": second(berthsql.Open("berthsql-plain", "", nil)),
	} {
		if invalid, ok := errors.AsType[*berth.InvalidError](err); !ok || !errors.Is(err, berth.ErrInvalid) || invalid.Reason == "" {
			t.Errorf("%s: error %v, want an InvalidError", what, err)
		}
	}
}

func TestOpenTakesThePlaceOfSQLOpen(t *testing.T) {
	exactly(t, 1, func(e *env) {
		registered.Do(register)
		for _, name := range []string{"berthsql-plain", "berthsql-context"} {
			db, err := berthsql.Open(name, "good", e.sem)
			e.Must(err)
			rows, err := db.QueryContext(e.Ctx, "select")
			e.Must(err)
			e.out(1)
			rows.Close()
			e.Must(db.Close())
			e.out(0)
		}
		e.WantErr(second(berthsql.Open("berthsql-context", "nonsense", e.sem)), errFake)
		if _, err := berthsql.Open("berthsql-unknown", "", e.sem); err == nil {
			e.Error("an unknown driver is no error")
		}
	})
}

func TestConnectorIsTheDrivers(t *testing.T) {
	exactly(t, 1, func(e *env) {
		db := e.open()
		if got := db.Driver(); got != e.d.Driver() {
			e.Errorf("the driver is %T", got)
		}
		c, err := db.Conn(e.Ctx)
		e.Must(err)
		e.Must(c.Raw(func(driverConn any) error {
			if _, ok := berthsql.Raw(driverConn).(full); !ok {
				e.Errorf("Raw returns %T", berthsql.Raw(driverConn))
			}
			return nil
		}))
		if berthsql.Raw(7) != 7 {
			e.Error("Raw changed what is not its own")
		}
		e.Must(c.Close())
		e.Must(e.wrap().Close())
		closing := &closer{database: e.d}
		wrapped, err := berthsql.NewConnector(closing, e.sem)
		e.Must(err)
		e.WantErr(sql.OpenDB(wrapped).Close(), errFake)
	})
}

// closer is a connector that can be closed.
type closer struct{ *database }

func (closer) Close() error { return errFake }
