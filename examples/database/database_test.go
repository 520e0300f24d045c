package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/examples/internal/postgres"
	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/examples/internal/stats"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	program.Worker(work) // the worker processes are this binary
	redistest.Main(m)
}

// TestOnPostgreSQL shares one server between its parts.
func TestOnPostgreSQL(t *testing.T) {
	t.Parallel()
	server, err := postgres.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	if err := seed(t.Context(), server.DSN, 20_000); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(*testing.T, *fixture){
		"the fleet keeps the limit":             testFleet,
		"one computes a cold report":            testColdReport,
		"permits come back from failed queries": testQueryFails,
		"permits come back with any connection": testConnectionLeft,
		"a cancelled query keeps its permit":    testCancelled,
		"no ping without a permit":              testPing,
		"a lost lease stops the query":          testLost,
		"database/sql":                          testSQL,
		"database/sql on a limited pool":        testSQLOnPool,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, server.DSN))
		})
	}
}

// fixture is a limit of 2 and a database.
type fixture struct {
	dsn    string
	client *berth.Client
	sem    *berth.Semaphore
}

func newFixture(t *testing.T, dsn string) *fixture {
	t.Helper()
	redis := redistest.Shared(t)
	client, err := berth.New(redis.Client(t), berth.Prefix(redis.Prefix(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	// A permit that leaks is missing for longer than any test waits.
	sem, err := client.Semaphore("database", 2, berth.TTL(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{dsn, client, sem}
}

func (f *fixture) pool(t *testing.T, changes ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(f.dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 8
	config.ConnConfig.RuntimeParams["application_name"] = t.Name()
	limitPool(config, f.sem)
	for _, change := range changes {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// allBack returns when no permit is out.
func (f *fixture) allBack(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lease, err := f.insist(ctx, berth.Weight(2))
	if err != nil {
		t.Fatalf("permits are missing: %v", err)
	}
	lease.Release()
}

// insist acquires, and does so again where Redis did not answer in time.
func (f *fixture) insist(ctx context.Context, opts ...berth.AcquireOption) (lease *berth.Lease, err error) {
	for range 5 {
		if lease, err = f.sem.Acquire(ctx, opts...); !errors.Is(err, berth.ErrUnreachable) {
			break
		}
	}
	return lease, err
}

// together runs n copies of f at once and returns the first error of any.
func together(n int, f func() error) error {
	_, err := stats.Measure(n, 1, func(int) error { return f() })
	return err
}

func testFleet(t *testing.T, f *fixture) {
	j := job{Redis: redistest.Start(t).URL(), DSN: f.dsn, Phase: t.Name(), Processes: 3, Clients: 6, Queries: 4, Limit: 2}
	limited, err := j.inAllProcesses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if limited.peak > 2 || len(limited.Queries) != 3*6*4 || len(limited.Calls) != 3*6*4 {
		t.Errorf("%d at once, %d queries in %d calls: want at most 2, 72 and 72", limited.peak, len(limited.Queries), len(limited.Calls))
	}
}

func testColdReport(t *testing.T, f *fixture) {
	j := job{Redis: redistest.Start(t).URL(), DSN: f.dsn, Phase: t.Name() + "a", Processes: 3, Clients: 4, Report: "a"}
	free, err := j.inAllProcesses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	j.Phase, j.Report, j.Alone = t.Name()+"b", "b", true
	alone, err := j.inAllProcesses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if free.Computed < 1 || alone.Computed != 1 || alone.peak > 1 || len(alone.Calls) != 12 {
		t.Errorf("computed %d times without berth, %d times with it, %d at once, for %d readers: want some, 1, 1, 12",
			free.Computed, alone.Computed, alone.peak, len(alone.Calls))
	}
}

// misuses are what may happen to a pool, by name.
type misuses map[string]func(ctx context.Context, t *testing.T, p *pgxpool.Pool)

// noLeak lets each of them happen, and wants all permits back.
func (f *fixture) noLeak(t *testing.T, all misuses) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a leak would have the next one wait
	defer cancel()
	for name, misuse := range all {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				misuse(ctx, t, f.pool(t))
			}
			f.allBack(t)
		})
	}
}

func testQueryFails(t *testing.T, f *fixture) {
	f.noLeak(t, misuses{
		"nonsense": func(ctx context.Context, t *testing.T, p *pgxpool.Pool) {
			if _, err := p.Exec(ctx, "SELECT nonsense"); err == nil {
				t.Error("no error")
			}
		},
		"connection broken": func(ctx context.Context, t *testing.T, p *pgxpool.Pool) {
			if _, err := p.Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())"); err == nil {
				t.Error("no error")
			}
		},
		"query timed out": func(ctx context.Context, t *testing.T, p *pgxpool.Pool) {
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			if _, err := p.Exec(ctx, "SELECT pg_sleep(60)"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		},
		"wait timed out": func(ctx context.Context, t *testing.T, p *pgxpool.Pool) {
			lease, err := f.insist(ctx, berth.Weight(2))
			if err != nil {
				t.Fatal(err)
			}
			defer lease.Release()
			ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			if _, err := p.Exec(ctx, "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		},
	})
}

func testConnectionLeft(t *testing.T, f *fixture) {
	short := func(c *pgxpool.Config) { c.MaxConnLifetime = 50 * time.Millisecond }
	f.noLeak(t, misuses{
		"transaction open": func(ctx context.Context, _ *testing.T, p *pgxpool.Pool) {
			p.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
				_, err := c.Exec(ctx, "BEGIN")
				return err
			})
		},
		"rows open": func(ctx context.Context, _ *testing.T, p *pgxpool.Pool) {
			p.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
				_, err := c.Query(ctx, "SELECT * FROM sale")
				return err
			})
		},
		"too old": func(ctx context.Context, t *testing.T, _ *pgxpool.Pool) {
			f.pool(t, short).Exec(ctx, "SELECT pg_sleep(0.06)")
		},
		"panic": func(ctx context.Context, _ *testing.T, p *pgxpool.Pool) {
			defer func() { _ = recover() }()
			p.AcquireFunc(ctx, func(*pgxpool.Conn) error { panic("ours") })
		},
	})
}

// testCancelled: a query whose client gave up runs on until PostgreSQL has
// stopped it, so for so long its permit must not be anybody else's.
func testCancelled(t *testing.T, f *fixture) {
	pool := f.pool(t)
	peak, err := watch(t.Context(), f.dsn, t.Name(), func() error {
		cancelled(t, f, func(ctx context.Context) { pool.Exec(ctx, "SELECT pg_sleep(60)") })
		return together(8, func() error {
			for range 4 {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				pool.Exec(ctx, "SELECT pg_sleep(0.06), pg_sleep(60)")
				cancel()
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if peak > 2 {
		t.Errorf("%d queries at once, want 2 at most", peak)
	}
	f.allBack(t)
}

// cancelled runs a query that sleeps for long, and cancels it when PostgreSQL works
// on it: a watcher of this test's queries can see one.
func cancelled(t *testing.T, f *fixture, query func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		query(ctx)
	}()
	waitRunning(t, f.dsn, t.Name())
	cancel()
	<-done
}

// A pool pings connections that have not been used for a second, and a ping is a query.
func testPing(t *testing.T, f *fixture) {
	pool := f.pool(t, func(config *pgxpool.Config) {
		config.MaxConns = 1
		if ping := config.ShouldPing; ping != nil {
			config.ShouldPing = func(ctx context.Context, p pgxpool.ShouldPingParams) bool {
				p.IdleDuration = time.Hour
				return ping(ctx, p)
			}
			return
		}
		config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true }
	})
	if _, err := pool.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	lease, err := f.insist(t.Context(), berth.Weight(2))
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := pool.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Acquire without a permit: %v", err)
	}
	watch, err := pgx.Connect(t.Context(), f.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close(t.Context())
	var last string
	err = watch.QueryRow(t.Context(), "SELECT query FROM pg_stat_activity WHERE application_name = $1", t.Name()).Scan(&last)
	if err != nil || last != "SELECT 1" {
		t.Errorf("the connection's last query is %q, %v; want the one that had a permit", last, err)
	}
}

func testLost(t *testing.T, f *fixture) {
	pool := f.pool(t)
	failed := make(chan error, 1)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT pg_sleep(60)")
		conn.Release()
		failed <- err
	}()
	state, err := berthadmin.Of(f.client).Show(t.Context(), "database")
	if err != nil || len(state.Leases) != 1 {
		t.Fatalf("%v, %v", state, err)
	}
	waitRunning(t, f.dsn, t.Name())
	if err := berthadmin.Of(f.client).ForceEvict(t.Context(), "database", state.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	var pg *pgconn.PgError
	if err := <-failed; !errors.As(err, &pg) || pg.Code != "57014" {
		t.Errorf("the query ended with %v, want query_canceled", err)
	}
	f.allBack(t)
}

// waitRunning returns when PostgreSQL works on a query of that name.
func waitRunning(t *testing.T, dsn, name string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for n := 0; n == 0; {
		if err := conn.QueryRow(t.Context(), running, name).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
}

func testSQL(t *testing.T, f *fixture) {
	db, err := sql.Open("pgx", f.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = together(6, func() error {
		n, err := countSales(t.Context(), db, f.sem)
		if n != 20_000 {
			t.Errorf("%d sales", n)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	f.allBack(t)
}

// testSQLOnPool: a limited pool keeps its limit behind database/sql, too.
func testSQLOnPool(t *testing.T, f *fixture) {
	db := stdlib.OpenDBFromPool(f.pool(t))
	defer db.Close()
	peak, err := watch(t.Context(), f.dsn, t.Name(), func() error {
		cancelled(t, f, func(ctx context.Context) { db.ExecContext(ctx, "SELECT pg_sleep(60)") })
		return together(8, func() error {
			_, err := db.ExecContext(t.Context(), "SELECT pg_sleep(0.05)")
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if peak > 2 {
		t.Errorf("%d queries at once, want 2 at most", peak)
	}
	f.allBack(t)
}

func TestDatabaseRefusesConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "host=127.0.0.1 port=1 user=nobody database=none connect_timeout=5")
	db, err := sql.Open("pgx", f.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	pool := f.pool(t)
	err = together(6, func() error {
		_, poolErr := pool.Exec(t.Context(), "SELECT 1")
		_, dbErr := countSales(t.Context(), db, f.sem)
		if poolErr == nil || dbErr == nil {
			return errors.New("a query succeeded without a database")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	f.allBack(t)
	if err := run(t.Context(), new(bytes.Buffer), job{DSN: f.dsn, Processes: 1, Clients: 1, Queries: 1, Limit: 1}, 1); err == nil {
		t.Error("the program says nothing")
	}
}

func TestSettingsOutOfBounds(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), new(bytes.Buffer), job{Processes: 1, Clients: -1}, 1); err == nil || !strings.Contains(err.Error(), "1 or more") {
		t.Error(err)
	}
}

func newReport(t *testing.T, compute func(context.Context) (string, error)) *report {
	t.Helper()
	redis := redistest.Shared(t)
	f := newFixture(t, "")
	one, err := f.client.Semaphore("report", 1)
	if err != nil {
		t.Fatal(err)
	}
	return &report{cache: redis.Client(t), key: redis.Prefix(t), one: one, compute: compute}
}

func TestOldReportIsServedMeanwhile(t *testing.T) {
	t.Parallel()
	started, finish := make(chan struct{}), make(chan struct{})
	r := newReport(t, func(context.Context) (string, error) {
		close(started)
		<-finish
		return "new", nil
	})
	r.cache.Set(t.Context(), r.key, "old", keptFor-freshFor)
	computed := make(chan string)
	go func() {
		text, _ := r.read(t.Context())
		computed <- text
	}()
	<-started
	for range 3 {
		if text, err := r.read(t.Context()); text != "old" || err != nil {
			t.Errorf("meanwhile %q, %v", text, err)
		}
	}
	close(finish)
	if text := <-computed; text != "new" {
		t.Errorf("the one who computed got %q", text)
	}
	if text, err := r.read(t.Context()); text != "new" || err != nil {
		t.Errorf("afterwards %q, %v", text, err)
	}
}

func TestNextReaderComputesAfterAFailure(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	r := newReport(t, func(context.Context) (string, error) {
		if calls.Add(1) == 1 {
			return "", errors.New("ours")
		}
		return "new", nil
	})
	var failed, served atomic.Int32
	together(5, func() error {
		switch text, err := r.read(t.Context()); {
		case err != nil:
			failed.Add(1)
		case text == "new":
			served.Add(1)
		}
		return nil
	})
	if failed.Load() != 1 || served.Load() != 4 || calls.Load() != 2 {
		t.Errorf("%d failed, %d served, computed %d times: want 1, 4, 2", failed.Load(), served.Load(), calls.Load())
	}
}

func TestReportFailsClosed(t *testing.T) {
	t.Parallel()
	r := newReport(t, func(context.Context) (string, error) { return "", errors.New("computed without a cache") })
	r.cache.Close()
	if _, err := r.read(t.Context()); err == nil || !strings.Contains(err.Error(), "the cache") {
		t.Error(err)
	}
}
