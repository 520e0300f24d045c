package berthsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// database is a driver's database in memory. It tells what was asked of the driver, and how much ran
// at once.
type database struct {
	dial   func(*link) driver.Conn // what connections can do; nil: everything
	prep   func(*plainStmt) driver.Stmt
	cursor func(*plainRows) driver.Rows

	mu      sync.Mutex
	log     []string
	running int // connections with calls that work, rows or transactions
	most    int
	open    int // connections
	mostOpn int // at once
	links   []*link
	ctx     context.Context // of the last query
	refused bool
	refusal error         // of Connect; nil: it panics
	working chan struct{} // tells that a "sleep" has begun
	awake   chan struct{} // ends it
}

func newDatabase() *database {
	return &database{working: make(chan struct{}, 100), awake: make(chan struct{})}
}

func (d *database) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, fmt.Sprintf(format, args...))
}

// asked returns what was asked of the driver, and forgets it.
func (d *database) asked() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.log = nil }()
	return strings.Join(d.log, "\n")
}

// begin notes that something runs, until the function that it returns is called.
func (l *link) begin() (end func()) {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if l.uses++; l.uses == 1 {
		l.d.running++
		l.d.most = max(l.d.most, l.d.running)
	}
	return sync.OnceFunc(func() {
		l.d.mu.Lock()
		defer l.d.mu.Unlock()
		if l.uses--; l.uses == 0 {
			l.d.running--
		}
	})
}

func (d *database) counts() (running, most, open, mostOpen int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running, d.most, d.open, d.mostOpn
}

// do is a query at the server.
func (d *database) do(ctx context.Context, query string) error {
	d.mu.Lock()
	d.ctx = ctx
	d.mu.Unlock()
	switch query {
	case "sleep deaf":
		d.working <- struct{}{}
		<-d.awake
	case "fail":
		return errFake
	case "panic":
		panic("the driver's")
	case "bad":
		return driver.ErrBadConn
	case "sleep":
		d.working <- struct{}{}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.awake:
		}
	}
	return nil
}

var errFake = errors.New("fake: no such table")

// refuse has Connect fail, or panic.
func (d *database) refuse(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused, d.refusal = true, err
}

// breakAll breaks all connections.
func (d *database) breakAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.links {
		l.hang = true
	}
}

// Connect implements driver.Connector.
func (d *database) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	if d.refused {
		defer d.mu.Unlock()
		if d.refusal == nil {
			panic("the driver's")
		}
		return nil, d.refusal
	}
	d.open++
	d.mostOpn = max(d.mostOpn, d.open)
	l := &link{d: d}
	d.links = append(d.links, l)
	d.mu.Unlock()
	if d.dial == nil {
		return full{plainConn{l}, preparer{l}, beginner{l}, execer{l}, queryer{l}, pinger{l}, resetter{l}, validator{l}}, nil
	}
	return d.dial(l), nil
}

// Driver implements driver.Connector.
func (d *database) Driver() driver.Driver { return fakeDriver{d} }

type fakeDriver struct{ d *database }

func (f fakeDriver) Open(string) (driver.Conn, error) { return f.d.Connect(context.Background()) }

// link is a connection; the types below are what its driver may be able to do.
type link struct {
	d    *database
	uses int
	hang bool // it is not valid any more
}

type full struct {
	plainConn
	preparer
	beginner
	execer
	queryer
	pinger
	resetter
	validator
}

// plainConn is all that a driver must have.
type plainConn struct{ l *link }

func (c plainConn) Prepare(query string) (driver.Stmt, error) {
	c.l.d.note("Prepare %s", query)
	return c.l.stmt(context.Background(), query)
}

func (c plainConn) Begin() (driver.Tx, error) {
	c.l.d.note("Begin")
	return &fakeTx{c.l, c.l.begin()}, nil
}

func (c plainConn) Close() error {
	c.l.d.note("Close")
	c.l.d.mu.Lock()
	defer c.l.d.mu.Unlock()
	c.l.d.open--
	return nil
}

func (l *link) stmt(ctx context.Context, query string) (driver.Stmt, error) {
	if query == "no statement" {
		return nil, errFake
	}
	if query == "panic while prepared ?" {
		panic("the driver's")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &plainStmt{l: l, query: query}
	if l.d.prep == nil {
		return contextStmt{s}, nil
	}
	return l.d.prep(s), nil
}

type preparer struct{ l *link }

func (p preparer) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	p.l.d.note("PrepareContext %s", query)
	return p.l.stmt(ctx, query)
}

type beginner struct{ l *link }

func (b beginner) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	b.l.d.note("BeginTx %+v", o)
	if o.Isolation == 7 {
		panic("the driver's")
	}
	return &fakeTx{b.l, b.l.begin()}, ctx.Err()
}

type fakeTx struct {
	l   *link
	end func()
}

func (t *fakeTx) Commit() error   { return t.ended("Commit") }
func (t *fakeTx) Rollback() error { return t.ended("Rollback") }

func (t *fakeTx) ended(how string) error {
	defer t.end()
	t.l.d.note("%s", how)
	if t.l.hang {
		return errFake
	}
	return nil
}

type execer struct{ l *link }

func (e execer) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	e.l.d.note("ExecContext %s %s", query, values(args))
	return e.l.exec(ctx, query)
}

// skipper executes and queries by itself only what has no arguments.
type skipper struct{ l *link }

func (s skipper) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if len(args) > 0 {
		return nil, driver.ErrSkip
	}
	return execer(s).ExecContext(ctx, query, args)
}

func (s skipper) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if len(args) > 0 {
		return nil, driver.ErrSkip
	}
	return queryer(s).QueryContext(ctx, query, args)
}

func (l *link) exec(ctx context.Context, query string) (driver.Result, error) {
	defer l.begin()()
	return driver.RowsAffected(1), l.d.do(ctx, query)
}

type queryer struct{ l *link }

func (q queryer) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q.l.d.note("QueryContext %s %s", query, values(args))
	return q.l.rows(ctx, query)
}

func (l *link) rows(ctx context.Context, query string) (driver.Rows, error) {
	end := l.begin()
	done := false
	defer func() {
		if !done {
			end()
		}
	}()
	if err := l.d.do(ctx, query); err != nil {
		return nil, err
	}
	done = true
	r := &plainRows{l: l, end: end, left: 3, ctx: ctx}
	if l.d.cursor == nil {
		return r, nil
	}
	return l.d.cursor(r), nil
}

type pinger struct{ l *link }

func (p pinger) Ping(ctx context.Context) error {
	defer p.l.begin()()
	p.l.d.note("Ping")
	return ctx.Err()
}

type resetter struct{ l *link }

func (r resetter) ResetSession(context.Context) error {
	r.l.d.note("ResetSession")
	if r.l.hang {
		return driver.ErrBadConn
	}
	return nil
}

type validator struct{ l *link }

func (v validator) IsValid() bool {
	v.l.d.note("IsValid")
	return !v.l.hang
}

// checker takes durations, drops functions, and leaves the rest to others.
type checker struct{ who string }

func (c checker) CheckNamedValue(v *driver.NamedValue) error {
	switch x := v.Value.(type) {
	case special:
		v.Value = c.who + string(x)
		return nil
	case func():
		return driver.ErrRemoveArgument
	}
	return driver.ErrSkip
}

// special is a type of argument that only some drivers know.
type special string

// plainStmt is all that a driver's statement must have.
type plainStmt struct {
	l     *link
	query string
}

func (s *plainStmt) NumInput() int { return strings.Count(s.query, "?") }

func (s *plainStmt) Close() error {
	s.l.d.note("Close %s", s.query)
	return nil
}

func (s *plainStmt) Exec(args []driver.Value) (driver.Result, error) {
	s.l.d.note("stmt Exec %s %v", s.query, args)
	return s.l.exec(context.Background(), s.query)
}

func (s *plainStmt) Query(args []driver.Value) (driver.Rows, error) {
	s.l.d.note("stmt Query %s %v", s.query, args)
	return s.l.rows(context.Background(), s.query)
}

type contextStmt struct{ *plainStmt }

func (s contextStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.l.d.note("stmt ExecContext %s %s", s.query, values(args))
	return s.l.exec(ctx, s.query)
}

func (s contextStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.l.d.note("stmt QueryContext %s %s", s.query, values(args))
	return s.l.rows(ctx, s.query)
}

type converter struct{}

func (converter) ColumnConverter(int) driver.ValueConverter { return converting{} }

type converting struct{}

func (converting) ConvertValue(v any) (driver.Value, error) {
	if x, ok := v.(special); ok {
		return "converted " + string(x), nil
	}
	return driver.DefaultParameterConverter.ConvertValue(v)
}

func values(args []driver.NamedValue) string {
	var all []string
	for _, a := range args {
		all = append(all, fmt.Sprintf("%s%d=%v", a.Name, a.Ordinal, a.Value))
	}
	return strings.Join(all, " ")
}

// plainRows are all that a driver's rows must have: two columns, three rows.
type plainRows struct {
	l    *link
	end  func()
	left int
	ctx  context.Context
}

func (r *plainRows) Columns() []string { return []string{"a", "b"} }

func (r *plainRows) Close() error {
	r.l.d.note("Close rows")
	r.end()
	return nil
}

func (r *plainRows) Next(dest []driver.Value) error {
	if r.left == 0 {
		return io.EOF
	}
	r.left--
	copy(dest, []driver.Value{int64(r.left), "text"})
	return nil
}

// register makes the drivers known to database/sql: a plain one, and one that makes connectors.
func register() {
	sql.Register("berthsql-plain", fakeDriver{newDatabase()})
	sql.Register("berthsql-context", contextDriver{fakeDriver{newDatabase()}})
}

var registered sync.Once

func init() { sql.Register("pgx", fakeDriver{newDatabase()}) } // for the examples

type contextDriver struct{ fakeDriver }

func (c contextDriver) OpenConnector(name string) (driver.Connector, error) {
	if name != "good" {
		return nil, errFake
	}
	return c.d, nil
}
