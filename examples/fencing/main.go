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

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/examples/internal/postgres"
	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/examples/internal/store"
)

func main() {
	dsn := flag.String("database", "", "`address` of a PostgreSQL; default: one of its own")
	flag.Parse()
	program.Run(func(ctx context.Context) error { return run(ctx, os.Stdout, *dsn) })
}

func run(ctx context.Context, out io.Writer, dsn string) error {
	if dsn == "" {
		server, err := postgres.Start(ctx)
		if err != nil {
			return err
		}
		defer server.Close()
		dsn = server.DSN()
	}
	f, err := newFence(ctx, dsn)
	if err != nil {
		return err
	}
	defer f.pool.Close()
	// Two separate stores play a master and a replica that was promoted before it had
	// received a grant.
	var sides [2]*redis.Client
	for i := range sides {
		side, err := store.Open("")
		if err != nil {
			return err
		}
		defer side.Close()
		sides[i] = side.Redis
	}
	return story(ctx, out, f, sides[0], sides[1])
}

// story lets two clients hold the same permit: A still uses the old master, B its
// successor.
func story(ctx context.Context, out io.Writer, f *fence, master, successor redis.UniversalClient) error {
	a, done, err := holder(ctx, master)
	if err != nil {
		return err
	}
	defer done()
	fmt.Fprintf(out, "A holds slot %d with token %d and writes: %v\n", a.Slot(), a.Token(), outcome(f.write(ctx, a, enter(ctx, "A"))))
	fmt.Fprintln(out, "failover to a replica that has not received this grant; A still reaches the old master")
	b, done, err := holder(ctx, successor)
	if err != nil {
		return err
	}
	defer done()
	fmt.Fprintf(out, "B holds slot %d with token %d and writes: %v\n", b.Slot(), b.Token(), outcome(f.write(ctx, b, enter(ctx, "B"))))
	late := f.write(ctx, a, enter(ctx, "A"))
	fmt.Fprintf(out, "A believes in its lease (%v) and writes: %v\n", a.Valid(), outcome(late))
	if !errors.Is(late, errStale) {
		return fmt.Errorf("the fence let a stale holder in: %w", late)
	}
	return nil
}

func outcome(err error) string {
	if err != nil {
		return "refused, " + err.Error()
	}
	return "done"
}

// holder acquires the only permit and holds it until done is called.
func holder(ctx context.Context, rdb redis.UniversalClient) (lease *berth.Lease, done func(), err error) {
	client, err := berth.New(rdb)
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = client.Close() }
	sem, err := client.Semaphore("ledger", 1)
	if err == nil {
		lease, err = sem.TryAcquire(ctx)
	}
	if err != nil {
		done()
	}
	return lease, done, err
}
