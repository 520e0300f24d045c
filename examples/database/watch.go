package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// running counts the server processes that work on a query for an application name.
const running = `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state = 'active'`

// watcher counts the running queries every 5 ms; it does not see a peak in between.
type watcher struct {
	cancel context.CancelFunc
	done   chan error
	peak   int // most queries that ran at once, as PostgreSQL says
}

func watch(ctx context.Context, dsn, name string) (*watcher, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	queries := context.WithoutCancel(ctx) // so that the last query is not cut off
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{cancel: cancel, done: make(chan error, 1)}
	go func() {
		defer conn.Close(queries)
		for n := 0; err == nil && ctx.Err() == nil; <-time.After(5 * time.Millisecond) {
			err = conn.QueryRow(queries, running, name).Scan(&n)
			w.peak = max(w.peak, n)
		}
		w.done <- err
	}()
	return w, nil
}

// stop ends the watch; peak may be read from then on.
func (w *watcher) stop() error {
	w.cancel()
	return <-w.done
}
