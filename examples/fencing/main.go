// Command fencing shows what a failover can do to a lease, and a table in
// PostgreSQL that refuses the holder who has not heard of it. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/examples/internal/postgres"
	"github.com/berth-go/berth/examples/internal/store"
)

func main() {
	dsn := flag.String("database", "", "`address` of a PostgreSQL; default: one of its own")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Stdout, *dsn); err != nil {
		fmt.Fprintln(os.Stderr, "fencing:", err)
		os.Exit(1)
	}
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
	// Two stores that know nothing of each other are what is left of a master and
	// a replica when the replica is promoted before it has received a grant.
	before, err := store.Open("")
	if err != nil {
		return err
	}
	defer before.Close()
	after, err := store.Open("")
	if err != nil {
		return err
	}
	defer after.Close()
	master, err := store.Connect(before.URL)
	if err != nil {
		return err
	}
	defer master.Close()
	successor, err := store.Connect(after.URL)
	if err != nil {
		return err
	}
	defer successor.Close()
	return story(ctx, out, f, master, successor)
}

// story lets two clients hold the same permit: the first still talks to the old
// master, the second to its successor.
func story(ctx context.Context, out io.Writer, f *fence, master, successor redis.UniversalClient) error {
	first, err := holder(ctx, master)
	if err != nil {
		return err
	}
	defer first.close()
	fmt.Fprintf(out, "A holds slot %d with token %d and writes: %v\n", first.lease.Slot(), first.lease.Token(), outcome(first.write(ctx, f, "A")))
	fmt.Fprintln(out, "failover to a replica that has not received this grant; A still reaches the old master")
	second, err := holder(ctx, successor)
	if err != nil {
		return err
	}
	defer second.close()
	fmt.Fprintf(out, "B holds slot %d with token %d and writes: %v\n", second.lease.Slot(), second.lease.Token(), outcome(second.write(ctx, f, "B")))
	late := first.write(ctx, f, "A")
	fmt.Fprintf(out, "A believes in its lease (%v) and writes: %v\n", first.lease.Valid(), outcome(late))
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

// party is a client with the one permit that there is.
type party struct {
	client *berth.Client
	lease  *berth.Lease
}

func holder(ctx context.Context, rdb redis.UniversalClient) (*party, error) {
	client, err := berth.New(rdb)
	if err != nil {
		return nil, err
	}
	sem, err := client.Semaphore("ledger", 1)
	if err != nil {
		return nil, err
	}
	lease, err := sem.TryAcquire(ctx)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return &party{client, lease}, nil
}

// write makes an entry in the name of writer, unless the fence objects.
func (p *party) write(ctx context.Context, f *fence, writer string) error {
	return f.write(ctx, p.lease, enter(ctx, writer))
}

func (p *party) close() { _ = p.client.Close() }
