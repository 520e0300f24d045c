package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/examples/internal/stats"
	"github.com/berth-go/berth/examples/internal/store"
)

// job is what one worker process does.
type job struct {
	DSN     string
	Redis   string
	Phase   string // the name of its connections in pg_stat_activity
	Clients int    // goroutines that query at once
	Queries int    // by each of them
	Limit   int    // concurrent queries of all processes; 0: no limit
	Report  string // the report to read instead of plain queries; "": none
	Alone   bool   // only one reader at a time computes the report
}

// result is what one worker process has seen.
type result struct {
	Calls    stats.Durations // from the call to the answer, the wait in line included
	Queries  stats.Durations // without the wait
	Computed int             // reports that it computed

	took time.Duration // of a phase, for all processes
	peak int           // most queries that ran at once in it
}

// topCustomers takes the database some milliseconds.
const topCustomers = `SELECT customer, sum(amount) FROM sale GROUP BY customer ORDER BY 2 DESC, 1 LIMIT 10`

// monthlyReport takes it much longer.
const monthlyReport = `SELECT count(*) || ' customers, best ' || max(total)
	FROM (SELECT a.customer, sum(a.amount * b.share) AS total FROM sale a, generate_series(1, 20) AS b(share) GROUP BY 1) AS t`

// work is the whole of a worker process.
func work(ctx context.Context, j job) (result, error) {
	rdb, client, err := store.Client(j.Redis)
	if err != nil {
		return result{}, err
	}
	defer rdb.Close()
	defer client.Close()
	pool, err := connect(ctx, client, j)
	if err != nil {
		return result{}, err
	}
	defer pool.Close()
	if j.Report != "" {
		return readReports(ctx, rdb, client, pool, j)
	}
	return query(ctx, pool, j)
}

// connect opens a pool for all clients of the process, limited or not.
func connect(ctx context.Context, client *berth.Client, j job) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(j.DSN)
	if err != nil {
		return nil, fmt.Errorf("the database's address: %w", err)
	}
	config.MaxConns = int32(j.Clients)
	config.ConnConfig.RuntimeParams["application_name"] = j.Phase
	if j.Limit > 0 {
		sem, err := client.Semaphore("database", j.Limit, berth.Label(j.Phase))
		if err != nil {
			return nil, err
		}
		limitPool(config, sem)
	}
	return pgxpool.NewWithConfig(ctx, config)
}

func query(ctx context.Context, pool *pgxpool.Pool, j job) (result, error) {
	var calls, queries stats.Log
	err := together(j.Clients, func() error {
		for range j.Queries {
			start := time.Now()
			conn, err := pool.Acquire(ctx) // here it waits for the permit
			if err != nil {
				return err
			}
			sent := time.Now()
			_, err = conn.Exec(ctx, topCustomers)
			queries.Since(sent)
			conn.Release()
			calls.Since(start)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return result{Calls: calls.Times(), Queries: queries.Times()}, err
}

func readReports(ctx context.Context, rdb *redis.Client, client *berth.Client, pool *pgxpool.Pool, j job) (result, error) {
	var calls stats.Log
	var computed atomic.Int64
	r := report{cache: rdb, key: j.Report, compute: func(ctx context.Context) (text string, err error) {
		computed.Add(1)
		err = pool.QueryRow(ctx, monthlyReport).Scan(&text)
		return text, err
	}}
	if j.Alone {
		var err error
		if r.one, err = client.Semaphore("report:"+j.Report, 1); err != nil {
			return result{}, err
		}
	}
	err := together(j.Clients, func() error {
		defer calls.Since(time.Now())
		_, err := r.read(ctx)
		return err
	})
	return result{Calls: calls.Times(), Computed: int(computed.Load())}, err
}

// together runs n copies of f at once and returns the first error of any.
func together(n int, f func() error) error {
	var all errgroup.Group
	for range n {
		all.Go(f)
	}
	return all.Wait()
}
