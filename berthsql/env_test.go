package berthsql_test

import (
	"context"
	"database/sql"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthsql"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

type env struct {
	*testenv.Env

	d   *database
	sem *berth.Semaphore
}

// each runs body on the embedded store and on a real server, with a semaphore of that limit.
func each(t *testing.T, limit int, body func(e *env)) {
	t.Helper()
	testenv.Each(t, func(e *testenv.Env) { body(&env{e, newDatabase(), e.Peer().Sem(limit)}) })
}

// exactly runs body on the embedded store alone.
func exactly(t *testing.T, limit int, body func(e *env)) {
	t.Helper()
	testenv.Embedded(t, func(e *testenv.Env) { body(&env{e, newDatabase(), e.Peer().Sem(limit)}) })
}

// open returns a pool on the database, which is closed with the test.
func (e *env) open(opts ...berthsql.Option) *sql.DB {
	e.Helper()
	db := sql.OpenDB(e.wrap(opts...))
	e.Cleanup(func() { e.Must(db.Close()) })
	return db
}

func (e *env) wrap(opts ...berthsql.Option) *berthsql.Connector {
	e.Helper()
	c, err := berthsql.NewConnector(e.d, e.sem, opts...)
	e.Must(err)
	return c
}

// out fails unless so many permits are out as soon as nothing is on its way.
func (e *env) out(n int) {
	e.Helper()
	if e.Exact {
		e.settle()
		if got := e.Show().InUse; got != n {
			e.Errorf("%d permits are out, want %d", got, n)
		}
		return
	}
	e.Until("permits out", func(s *berthadmin.State) bool { return s.InUse == n })
}

// settle waits until what goes on in the background, such as a release, is done.
func (e *env) settle() {
	e.Pass(time.Millisecond)
	synctest.Wait()
}

// exec executes a statement in the background.
func (e *env) exec(ctx context.Context, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, query string,
) <-chan error {
	done := make(chan error, 1)
	go func() { done <- second(db.ExecContext(ctx, query)) }()
	return done
}

// evict takes the permit that is out away.
func (e *env) evict() {
	e.Helper()
	st := e.Show()
	if len(st.Leases) != 1 {
		e.Fatalf("there are %d leases, want 1", len(st.Leases))
	}
	e.Must(e.Inspector.ForceEvict(e.Ctx, testenv.Name, st.Leases[0].ID))
	e.settle()
}
