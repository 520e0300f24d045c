// Command fencing shows how a failover can give one permit to two holders, and how a
// table in PostgreSQL refuses the older one. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/examples/internal/postgres"
	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/examples/internal/store"
)

func main() {
	dsn := flag.String("database", "", "`address` of a PostgreSQL; default: it starts one")
	flag.Parse()
	program.Run(func(ctx context.Context) error { return run(ctx, os.Stdout, *dsn) })
}

func run(ctx context.Context, out io.Writer, dsn string) error {
	server, err := postgres.Open(ctx, dsn)
	if err != nil {
		return err
	}
	defer server.Close()
	db, err := pgxpool.New(ctx, server.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec(ctx, schema); err != nil {
		return err
	}
	// Two separate stores play a master and a replica that was promoted before it had
	// received a grant.
	master, err := store.Open("")
	if err != nil {
		return err
	}
	defer master.Close()
	successor, err := store.Open("")
	if err != nil {
		return err
	}
	defer successor.Close()
	return story(ctx, out, db, master.Client, successor.Client)
}

// story lets two clients hold the same permit: A still uses the old master, B its
// successor.
func story(ctx context.Context, out io.Writer, db *pgxpool.Pool, master, successor redis.UniversalClient) error {
	return hold(ctx, master, func(a *berth.Lease) error {
		first := write(ctx, db, a, enter(ctx, "A"))
		fmt.Fprintf(out, "A holds slot %d with token %d and writes: %v\n", a.Slot(), a.Token(), outcome(first))
		fmt.Fprintln(out, "failover to a replica that has not received this grant; A still reaches the old master")
		return hold(ctx, successor, func(b *berth.Lease) error {
			second := write(ctx, db, b, enter(ctx, "B"))
			fmt.Fprintf(out, "B holds slot %d with token %d and writes: %v\n", b.Slot(), b.Token(), outcome(second))
			late := write(ctx, db, a, enter(ctx, "A"))
			fmt.Fprintf(out, "A believes in its lease (%v) and writes: %v\n", a.Valid(), outcome(late))
			if !errors.Is(late, errStale) {
				return fmt.Errorf("the fence let a stale holder in: %w", late)
			}
			return nil
		})
	})
}

// hold calls f with a lease of the only permit.
func hold(ctx context.Context, rdb redis.UniversalClient, f func(*berth.Lease) error) error {
	client, err := berth.New(rdb)
	if err != nil {
		return err
	}
	defer client.Close()
	sem, err := client.Semaphore("ledger", 1)
	if err != nil {
		return err
	}
	lease, err := sem.TryAcquire(ctx)
	if err != nil {
		return err
	}
	return f(lease)
}

func outcome(err error) string {
	if err != nil {
		return "refused, " + err.Error()
	}
	return "done"
}
