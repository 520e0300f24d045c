package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-go/berth/examples/internal/stats"
)

// watcher looks at the database from outside while a phase runs.
type watcher struct {
	cancel context.CancelFunc
	done   chan error
	peak   int             // queries of the phase that ran at once, as PostgreSQL says
	probes stats.Durations // a small query of somebody who has nothing to do with it all
}

const (
	probeEvery = 5 * time.Millisecond
	// running counts the phase's server processes that work on a query.
	running = `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state = 'active'`
	// probe is a bystander's query: one row by its key.
	probe = `SELECT sum(amount) IS NULL FROM sale WHERE id = $1`
)

// watch starts a watcher. It samples: a peak between two looks goes unseen.
func watch(ctx context.Context, dsn, phase string) (*watcher, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{cancel: cancel, done: make(chan error, 1)}
	go func() {
		defer conn.Close(context.WithoutCancel(ctx))
		w.done <- w.look(ctx, conn, phase)
	}()
	return w, nil
}

// stop ends the watch; the numbers may be read from then on.
func (w *watcher) stop() error {
	w.cancel()
	return <-w.done
}

func (w *watcher) look(ctx context.Context, conn *pgx.Conn, phase string) error {
	// The queries outlive ctx, so that the last one is not cut off.
	queries := context.WithoutCancel(ctx)
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for id := 1; ; id++ {
		var n int
		var none bool
		if err := conn.QueryRow(queries, running, phase).Scan(&n); err != nil {
			return err
		}
		w.peak = max(w.peak, n)
		start := time.Now()
		if err := conn.QueryRow(queries, probe, id).Scan(&none); err != nil {
			return err
		}
		w.probes = append(w.probes, time.Since(start))
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
