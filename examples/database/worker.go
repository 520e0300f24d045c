package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/examples/internal/stats"
	"github.com/berth-go/berth/examples/internal/store"
)

// job is what every worker process is told.
type job struct {
	DSN       string
	Redis     string
	Phase     string // the name of its connections in pg_stat_activity
	Processes int
	Clients   int    // goroutines of a process that query at once
	Queries   int    // by each of them
	Limit     int    // concurrent queries of all processes; 0: no limit
	Report    string // the report to read instead of plain queries; "": none
	Alone     bool   // only one reader at a time computes the report
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
func work(ctx context.Context, j job) (r result, err error) {
	redis, err := store.Open(j.Redis)
	if err != nil {
		return r, err
	}
	defer redis.Close()
	client, err := berth.New(redis.Client)
	if err != nil {
		return r, err
	}
	defer client.Close()
	pool, err := connect(ctx, client, j)
	if err != nil {
		return r, err
	}
	defer pool.Close()
	if j.Report == "" {
		return query(ctx, pool, j)
	}
	var computed atomic.Int64
	monthly := report{cache: redis.Client, key: j.Report, compute: func(ctx context.Context) (text string, err error) {
		computed.Add(1)
		err = pool.QueryRow(ctx, monthlyReport).Scan(&text)
		return text, err
	}}
	if j.Alone {
		if monthly.one, err = client.Semaphore("report:"+j.Report, 1); err != nil {
			return r, err
		}
	}
	r.Calls, err = stats.Measure(j.Clients, 1, func(int) error {
		_, err := monthly.read(ctx)
		return err
	})
	r.Computed = int(computed.Load())
	return r, err
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

// query has all clients query the database.
func query(ctx context.Context, pool *pgxpool.Pool, j job) (r result, err error) {
	queries := make([]stats.Durations, j.Clients)
	r.Calls, err = stats.Measure(j.Clients, j.Queries, func(client int) error {
		conn, err := pool.Acquire(ctx) // here it waits for the permit
		if err != nil {
			return err
		}
		defer conn.Release()
		start := time.Now()
		_, err = conn.Exec(ctx, topCustomers)
		queries[client] = append(queries[client], time.Since(start))
		return err
	})
	r.Queries = slices.Concat(queries...)
	return r, err
}
