package berthsql

import (
	"database/sql/driver"
	"fmt"
	"io"
	"reflect"
)

// rows keep a permit until they are closed. They have all optional interfaces of a driver.Rows; none
// has the answers of those that the driver's rows lack.
type rows struct {
	inner driver.Rows
	use   *use
	driver.RowsNextResultSet
	driver.RowsColumnTypeScanType
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeLength
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
}

// none answers as database/sql does itself where rows have no such method.
type none struct{ driver.Rows }

func (none) HasNextResultSet() bool                            { return false }
func (none) NextResultSet() error                              { return io.EOF }
func (none) ColumnTypeScanType(int) reflect.Type               { return reflect.TypeFor[any]() }
func (none) ColumnTypeDatabaseTypeName(int) string             { return "" }
func (none) ColumnTypeLength(int) (int64, bool)                { return 0, false }
func (none) ColumnTypeNullable(int) (bool, bool)               { return false, false }
func (none) ColumnTypePrecisionScale(int) (int64, int64, bool) { return 0, 0, false }

func orNone[T any](inner driver.Rows) T {
	if t, ok := inner.(T); ok {
		return t
	}
	return any(none{}).(T)
}

func newRows(inner driver.Rows, u *use) driver.Rows {
	return exactly(&rows{
		inner, u,
		orNone[driver.RowsNextResultSet](inner),
		orNone[driver.RowsColumnTypeScanType](inner),
		orNone[driver.RowsColumnTypeDatabaseTypeName](inner),
		orNone[driver.RowsColumnTypeLength](inner),
		orNone[driver.RowsColumnTypeNullable](inner),
		orNone[driver.RowsColumnTypePrecisionScale](inner),
	})
}

func (r *rows) Columns() []string { return r.inner.Columns() }
func (r *rows) Next(dest []driver.Value) error {
	return r.next(func() error { return r.inner.Next(dest) })
}

// next stops at a lost lease: not every driver follows a query's context while its rows are read.
func (r *rows) next(call func() error) error {
	if r.use.ctx.Err() != nil {
		if lost := lost(r.use.lease); lost != nil {
			return lost
		}
	}
	return explain(call(), r.use.lease)
}

func (r *rows) Close() error {
	defer r.use.end()
	return r.inner.Close()
}

// tx keeps a permit until it has ended, also where that fails.
type tx struct {
	inner driver.Tx
	use   *use
}

func newTx(inner driver.Tx, u *use) driver.Tx { return &tx{inner, u} }

// Commit without a lease rolls back. The outcome is certain, because COMMIT was not sent.
func (t *tx) Commit() error {
	defer t.use.end()
	if lost := lost(t.use.lease); lost != nil {
		_ = t.inner.Rollback() // the connection is closed, whatever becomes of it
		return fmt.Errorf("berthsql: the transaction was rolled back, not committed: %w", lost)
	}
	return explain(t.inner.Commit(), t.use.lease)
}

// Rollback after the end of its context leaves a connection that database/sql keeps only if it is both
// reset and validated, as every conn can be. What counts is what the driver can do.
func (t *tx) Rollback() error {
	defer t.use.end()
	c := t.use.conn
	_, resets := c.inner.(driver.SessionResetter)
	_, validates := c.inner.(driver.Validator)
	if t.use.ctx.Err() != nil && (!resets || !validates) {
		c.mu.Lock()
		c.bad = true
		c.mu.Unlock()
	}
	return t.inner.Rollback()
}
