package berthsql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

// What a driver can do shows in which calls database/sql makes. So each kind of driver is used with
// permits and without, and must hear and answer the same.

// connections are the kinds of connections, by what they can do.
var connections = map[string]func(l *link) driver.Conn{
	"everything": nil,
	"everything and checks": func(l *link) driver.Conn {
		return struct {
			full
			checker
		}{full{plainConn{l}, preparer{l}, beginner{l}, execer{l}, queryer{l}, pinger{l}, resetter{l}, validator{l}}, checker{"conn "}}
	},
	"only what it must": func(l *link) driver.Conn { return plainConn{l} },
	"contexts": func(l *link) driver.Conn {
		return struct {
			plainConn
			preparer
			beginner
		}{plainConn{l}, preparer{l}, beginner{l}}
	},
	"contexts and checks": func(l *link) driver.Conn {
		return struct {
			plainConn
			preparer
			beginner
			checker
		}{plainConn{l}, preparer{l}, beginner{l}, checker{"conn "}}
	},
	"skips": func(l *link) driver.Conn {
		return struct {
			plainConn
			preparer
			beginner
			skipper
		}{plainConn{l}, preparer{l}, beginner{l}, skipper{l}}
	},
	"executes": func(l *link) driver.Conn {
		return struct {
			plainConn
			execer
		}{plainConn{l}, execer{l}}
	},
	"queries": func(l *link) driver.Conn {
		return struct {
			plainConn
			queryer
		}{plainConn{l}, queryer{l}}
	},
	"resets": func(l *link) driver.Conn {
		return struct {
			plainConn
			beginner
			resetter
		}{plainConn{l}, beginner{l}, resetter{l}}
	},
	"validates": func(l *link) driver.Conn {
		return struct {
			plainConn
			beginner
			validator
		}{plainConn{l}, beginner{l}, validator{l}}
	},
}

// statements are the kinds of statements.
var statements = map[string]func(s *plainStmt) driver.Stmt{
	"with contexts":       func(s *plainStmt) driver.Stmt { return contextStmt{s} },
	"plain":               func(s *plainStmt) driver.Stmt { return s },
	"that check":          func(s *plainStmt) driver.Stmt { return checkingStmt{contextStmt{s}, checker{"stmt "}} },
	"that convert":        func(s *plainStmt) driver.Stmt { return convertingStmt{s, converter{}} },
	"that check, convert": func(s *plainStmt) driver.Stmt { return bothStmt{contextStmt{s}, checker{"stmt "}, converter{}} },
}

type (
	checkingStmt struct {
		contextStmt
		checker
	}
	convertingStmt struct {
		*plainStmt
		converter
	}
	bothStmt struct {
		contextStmt
		checker
		converter
	}
)

// uses are what programs do with a database, and tell of it.
var uses = map[string]func(ctx context.Context, db *sql.DB) any{
	"exec":      func(ctx context.Context, db *sql.DB) any { return second(db.ExecContext(ctx, "do")) },
	"exec args": func(ctx context.Context, db *sql.DB) any { return second(db.ExecContext(ctx, "do ? ?", 1, "x")) },
	"exec named": func(ctx context.Context, db *sql.DB) any {
		return failed(db.ExecContext(ctx, "do ?", sql.Named("n", 1)))
	},
	"special":     func(ctx context.Context, db *sql.DB) any { return second(db.ExecContext(ctx, "do ?", special("s"))) },
	"struct":      func(ctx context.Context, db *sql.DB) any { return failed(db.ExecContext(ctx, "do ?", struct{}{})) },
	"removed":     func(ctx context.Context, db *sql.DB) any { return failed(db.ExecContext(ctx, "do ?", func() {}, 2)) },
	"too many":    func(ctx context.Context, db *sql.DB) any { return failed(db.ExecContext(ctx, "do ?", 1, 2)) },
	"exec fails":  func(ctx context.Context, db *sql.DB) any { return second(db.ExecContext(ctx, "fail")) },
	"bad":         func(ctx context.Context, db *sql.DB) any { return second(db.ExecContext(ctx, "bad")) },
	"query":       func(ctx context.Context, db *sql.DB) any { return all(db.QueryContext(ctx, "select")) },
	"query args":  func(ctx context.Context, db *sql.DB) any { return all(db.QueryContext(ctx, "select ?", special("s"))) },
	"query fails": func(ctx context.Context, db *sql.DB) any { return second(db.QueryContext(ctx, "fail")) },
	"ping":        func(ctx context.Context, db *sql.DB) any { return db.PingContext(ctx) },
	"twice": func(ctx context.Context, db *sql.DB) any {
		return fmt.Sprint(second(db.ExecContext(ctx, "do")), all(db.QueryContext(ctx, "select")))
	},
	"not prepared": func(ctx context.Context, db *sql.DB) any { return second(db.PrepareContext(ctx, "no statement")) },
	"prepared": func(ctx context.Context, db *sql.DB) any {
		s, err := db.PrepareContext(ctx, "do ?")
		if err != nil {
			return err
		}
		defer s.Close()
		return fmt.Sprint(second(s.ExecContext(ctx, 1)), all(s.QueryContext(ctx, special("s"))), second(s.ExecContext(ctx)))
	},
	"commit":   func(ctx context.Context, db *sql.DB) any { return transact(ctx, db, (*sql.Tx).Commit, nil) },
	"rollback": func(ctx context.Context, db *sql.DB) any { return transact(ctx, db, (*sql.Tx).Rollback, nil) },
	"isolated": func(ctx context.Context, db *sql.DB) any {
		return transact(ctx, db, (*sql.Tx).Commit, &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true}) != nil
	},
	"connection": func(ctx context.Context, db *sql.DB) any {
		c, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		rows, err := c.QueryContext(ctx, "select")
		return fmt.Sprint(second(c.ExecContext(ctx, "do ?", 1)), all(rows, err), c.PingContext(ctx))
	},
	"context ended": func(_ context.Context, db *sql.DB) any {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return second(db.ExecContext(ctx, "do"))
	},
}

func second[T any](_ T, err error) error { return err }

// failed is for errors whose text names who made them.
func failed[T any](_ T, err error) bool { return err != nil }

// all reads rows to their end.
func all(rows *sql.Rows, err error) string {
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	var b strings.Builder
	for more := true; more; more = rows.NextResultSet() {
		types, err := rows.ColumnTypes()
		if err != nil {
			return err.Error()
		}
		for _, t := range types {
			length, hasLength := t.Length()
			null, hasNull := t.Nullable()
			precision, scale, hasDecimal := t.DecimalSize()
			fmt.Fprintln(&b, t.Name(), t.ScanType(), t.DatabaseTypeName(), length, hasLength, null, hasNull, precision, scale, hasDecimal)
		}
		for rows.Next() {
			var n int
			var s string
			fmt.Fprintln(&b, rows.Scan(&n, &s), n, s)
		}
	}
	return fmt.Sprintln(b.String(), rows.Err())
}

func transact(ctx context.Context, db *sql.DB, end func(*sql.Tx) error, o *sql.TxOptions) error {
	tx, err := db.BeginTx(ctx, o)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "do ?", 1); err != nil {
		return err
	}
	return errors.Join(second(tx.QueryContext(ctx, "fail")), end(tx), second(tx.ExecContext(ctx, "late")))
}

// both does the same without permits and with, and compares.
func (e *env) both(what string, setUp func(*database), do func(db *sql.DB) any) {
	e.Helper()
	var told [2]string
	for i := range told {
		e.d = newDatabase()
		setUp(e.d)
		var connector driver.Connector = e.d
		if i == 1 {
			connector = e.wrap()
		}
		db := sql.OpenDB(connector)
		result := do(db)
		e.Must(db.Close())
		told[i] = fmt.Sprintf("%v\n%s", result, e.d.asked())
	}
	if told[0] != told[1] {
		e.Errorf("%s: without permits\n%s\nwith permits\n%s", what, told[0], told[1])
	}
}

func TestDriversHearAndAnswerTheSame(t *testing.T) {
	for conn, dial := range connections {
		t.Run(conn, func(t *testing.T) {
			exactly(t, 1, func(e *env) {
				for stmt, prep := range statements {
					for use, do := range uses {
						if stmt != "with contexts" && !ofStatements[use] {
							continue
						}
						e.both(fmt.Sprintf("statements %s; %s", stmt, use),
							func(d *database) { d.dial, d.prep = dial, prep },
							func(db *sql.DB) any { return do(e.Ctx, db) })
					}
				}
			})
		})
	}
}

// ofStatements are the uses for which it matters what a statement can do.
var ofStatements = map[string]bool{
	"exec args": true, "exec named": true, "special": true, "struct": true, "removed": true, "too many": true,
	"query args": true, "prepared": true,
}

// When the context of a transaction ends, database/sql closes the connection, unless the driver can
// tell that it is as new.
func TestConnectionIsKeptAfterATransactionWhereTheDriverCan(t *testing.T) {
	for conn, dial := range connections {
		t.Run(conn, func(t *testing.T) {
			exactly(t, 1, func(e *env) {
				e.both(conn, func(d *database) { d.dial = dial }, func(db *sql.DB) any {
					ctx, cancel := context.WithCancel(e.Ctx)
					_, err := db.BeginTx(ctx, nil)
					cancel()
					e.settle()
					return fmt.Sprint(err, second(db.ExecContext(e.Ctx, "do")), db.Stats().OpenConnections)
				})
			})
		})
	}
}

// cursors are the kinds of rows, by what they can do.
var cursors = map[string]func(r *plainRows) driver.Rows{
	"plain": func(r *plainRows) driver.Rows { return r },
	"result sets": func(r *plainRows) driver.Rows {
		return struct {
			*plainRows
			*sets
		}{r, &sets{r: r}}
	},
	"types": func(r *plainRows) driver.Rows {
		return struct {
			*plainRows
			scanType
		}{plainRows: r}
	},
	"names": func(r *plainRows) driver.Rows {
		return struct {
			*plainRows
			typeName
		}{plainRows: r}
	},
	"lengths": func(r *plainRows) driver.Rows {
		return struct {
			*plainRows
			length
		}{plainRows: r}
	},
	"nulls": func(r *plainRows) driver.Rows {
		return struct {
			*plainRows
			nullable
		}{plainRows: r}
	},
	"decimals": func(r *plainRows) driver.Rows {
		return struct {
			*plainRows
			decimal
		}{plainRows: r}
	},
	"all": func(r *plainRows) driver.Rows {
		return struct {
			*plainRows
			*sets
			scanType
			typeName
			length
			nullable
			decimal
		}{plainRows: r, sets: &sets{r: r}}
	},
}

type (
	scanType struct{}
	typeName struct{}
	length   struct{}
	nullable struct{}
	decimal  struct{}

	// sets are two result sets.
	sets struct {
		r    *plainRows
		last bool
	}
)

func (scanType) ColumnTypeScanType(int) reflect.Type              { return reflect.TypeFor[special]() }
func (typeName) ColumnTypeDatabaseTypeName(int) string            { return "MONEY" }
func (length) ColumnTypeLength(i int) (int64, bool)               { return int64(i), true }
func (nullable) ColumnTypeNullable(int) (bool, bool)              { return true, true }
func (decimal) ColumnTypePrecisionScale(int) (int64, int64, bool) { return 7, 2, true }
func (s *sets) HasNextResultSet() bool                            { return !s.last }
func (s *sets) NextResultSet() error {
	if s.last {
		return io.EOF
	}
	s.last, s.r.left = true, 2
	return nil
}

func TestRowsHideAndInventNothing(t *testing.T) {
	for what, cursor := range cursors {
		t.Run(what, func(t *testing.T) {
			exactly(t, 1, func(e *env) {
				for _, read := range []func(*sql.Rows, error) string{all, first} {
					e.both(what, func(d *database) { d.cursor = cursor },
						func(db *sql.DB) any { return read(db.QueryContext(e.Ctx, "select")) })
				}
			})
		})
	}
}

// first reads a row, and moves on.
func first(rows *sql.Rows, err error) string {
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	return fmt.Sprint(rows.Next(), rows.NextResultSet(), rows.Next(), rows.NextResultSet(), rows.Err())
}
