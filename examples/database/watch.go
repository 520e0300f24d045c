package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// running counts the server processes that work on a query for an application name.
const running = `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state = 'active'`

// watch returns the most queries that ran at once during f, as PostgreSQL says. It counts
// them every 5 ms and does not see a peak in between.
func watch(ctx context.Context, dsn, name string, f func() error) (peak int, err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx) // f decides when it ends
	defer conn.Close(ctx)
	ended := make(chan struct{})
	var watcher errgroup.Group
	watcher.Go(func() error {
		for {
			var n int
			if err := conn.QueryRow(ctx, running, name).Scan(&n); err != nil {
				return err
			}
			peak = max(peak, n)
			select {
			case <-ended:
				return nil
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	err = f()
	close(ended)
	err = errors.Join(err, watcher.Wait())
	return peak, err
}
