package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthsql"
	"github.com/berth-go/berth/examples/internal/postgres"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestPostgreSQLAnswersTheSame: what programs do with the driver of pgx has the same outcome without
// permits and with both kinds.
func TestPostgreSQLAnswersTheSame(t *testing.T) {
	t.Parallel()
	server, err := postgres.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	redis := redistest.Shared(t)
	client, err := berth.New(redis.Client(t), berth.Prefix(redis.Prefix(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	plain, err := sql.Open("pgx", server.DSN)
	if err != nil {
		t.Fatal(err)
	}
	want := usual(t, plain)
	if !strings.HasSuffix(want, "true <nil>\n") {
		t.Fatalf("the driver alone: %s", want)
	}
	for name, opts := range map[string][]berthsql.Option{"query": nil, "connection": {berthsql.PerConnection()}} {
		// One permit: whatever takes a second one waits for ever.
		sem, err := client.Semaphore(name, 1, berth.TTL(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		db, err := berthsql.Open("pgx", server.DSN, sem, opts...)
		if err != nil {
			t.Fatal(err)
		}
		if got := usual(t, db); got != want {
			t.Errorf("with a permit for each %s:\n%s\nwithout:\n%s", name, got, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if lease, err := sem.Acquire(ctx); err != nil {
			t.Errorf("with a permit for each %s, one is missing: %v", name, err)
		} else {
			lease.Release()
		}
	}
}

// usual tells what comes of the usual ways to use a database.
func usual(t *testing.T, db *sql.DB) string {
	t.Helper()
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	told := fmt.Sprintln(db.PingContext(ctx),
		sqlError(db.ExecContext(ctx, "DROP TABLE IF EXISTS t")), sqlError(db.ExecContext(ctx, "CREATE TABLE t (n int)")))
	var n int
	var text []string
	var when time.Time
	told += fmt.Sprintln(db.QueryRowContext(ctx, "SELECT $1::int, $2::text[], $3::timestamptz", 1, []string{"a", "b"}, time.Unix(0, 0)).
		Scan(&n, pgtype.NewMap().SQLScanner(&text), &when), n, text, when.Unix())
	told += fmt.Sprintln(db.QueryRowContext(ctx, "SELECT 1 WHERE false").Scan(&n), sqlError(db.ExecContext(ctx, "SELECT nonsense")))
	rows, err := db.QueryContext(ctx, "SELECT 1::numeric(7, 2) AS a, 'x'::varchar(9) AS b, now() AS c")
	if err != nil {
		return err.Error()
	}
	types, err := rows.ColumnTypes()
	told += fmt.Sprintln(err, rows.Close())
	for _, c := range types {
		length, hasLength := c.Length()
		precision, scale, hasScale := c.DecimalSize()
		told += fmt.Sprintln(c.Name(), c.DatabaseTypeName(), c.ScanType(), length, hasLength, precision, scale, hasScale)
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true})
	if err != nil {
		return err.Error()
	}
	var level string
	told += fmt.Sprintln(tx.QueryRowContext(ctx, "SHOW transaction_isolation").Scan(&level), level,
		sqlError(tx.ExecContext(ctx, "CREATE TABLE u (n int)")), tx.Rollback())
	s, err := db.PrepareContext(ctx, "SELECT $1::int + 1")
	if err != nil {
		return err.Error()
	}
	told += fmt.Sprintln(s.QueryRowContext(ctx, 1).Scan(&n), n, s.Close())
	conn, err := db.Conn(ctx)
	if err != nil {
		return err.Error()
	}
	told += fmt.Sprintln(conn.Raw(func(driverConn any) error {
		_, err := berthsql.Raw(driverConn).(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{"t"}, []string{"n"}, pgx.CopyFromRows([][]any{{1}, {2}}))
		return err
	}), conn.QueryRowContext(ctx, "SELECT count(*) FROM t").Scan(&n), n, conn.Close())
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = db.ExecContext(short, "SELECT pg_sleep(60)")
	return told + fmt.Sprintln(errors.Is(err, context.DeadlineExceeded), db.PingContext(ctx))
}

func sqlError[T any](_ T, err error) string { return fmt.Sprint(err) }
