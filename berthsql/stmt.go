package berthsql

import (
	"context"
	"database/sql/driver"
	"errors"
)

// stmt is a statement, with all optional interfaces but driver.ColumnConverter, as conn is.
type stmt struct {
	driver.Stmt

	conn *conn
}

// converting is a statement whose driver has that, too.
type converting struct {
	*stmt
	columnConverter
}

type columnConverter interface {
	ColumnConverter(index int) driver.ValueConverter
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	inner, err := during(ctx, c, func(ctx context.Context) (driver.Stmt, error) {
		if p, ok := c.inner.(driver.ConnPrepareContext); ok {
			return p.PrepareContext(ctx, query)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return c.inner.Prepare(query)
	}, nil)
	if err != nil {
		return nil, err
	}
	s := &stmt{inner, c}
	if converter, ok := inner.(columnConverter); ok {
		return converting{s, converter}, nil
	}
	return s, nil
}

// CheckNamedValue asks the connection where database/sql would: if the statement does not check.
func (s *stmt) CheckNamedValue(v *driver.NamedValue) error { return check(v, s.Stmt, s.conn.inner) }

func check(v *driver.NamedValue, by ...any) error {
	for _, one := range by {
		if c, ok := one.(driver.NamedValueChecker); ok {
			return c.CheckNamedValue(v)
		}
	}
	return driver.ErrSkip
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return during(ctx, s.conn, func(ctx context.Context) (driver.Result, error) {
		if x, ok := s.Stmt.(driver.StmtExecContext); ok {
			return x.ExecContext(ctx, args)
		}
		values, err := unnamed(ctx, args)
		if err != nil {
			return nil, err
		}
		return s.Exec(values)
	}, nil)
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return during(ctx, s.conn, func(ctx context.Context) (driver.Rows, error) {
		if q, ok := s.Stmt.(driver.StmtQueryContext); ok {
			return q.QueryContext(ctx, args)
		}
		values, err := unnamed(ctx, args)
		if err != nil {
			return nil, err
		}
		return s.Query(values)
	}, newRows)
}

// unnamed returns the arguments for a driver that knows neither names nor contexts.
func unnamed(ctx context.Context, args []driver.NamedValue) (values []driver.Value, err error) {
	for _, a := range args {
		if a.Name != "" {
			return nil, errors.New("berthsql: the driver has no named parameters: use its placeholders")
		}
		values = append(values, a.Value)
	}
	return values, ctx.Err()
}

// Close also ends what the driver skipped. A closed connection has no statements.
func (s *stmt) Close() error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	defer s.conn.rest()
	s.conn.skipped = false
	if s.conn.closed {
		return nil
	}
	return s.Stmt.Close()
}
