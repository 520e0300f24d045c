// Command database limits the queries that several processes run on one PostgreSQL,
// keeps them from computing an expensive report all at once, and measures what both
// gain. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-go/berth/examples/internal/postgres"
	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/examples/internal/stats"
	"github.com/berth-go/berth/examples/internal/store"
)

func main() {
	program.Worker(work)
	var j job
	flag.StringVar(&j.Redis, "redis", os.Getenv("REDIS_URL"), "`URL` of the Redis; default: an embedded store")
	flag.StringVar(&j.DSN, "database", "", "`address` of a PostgreSQL; default: it starts one. The table sale is made anew")
	flag.IntVar(&j.Processes, "processes", 4, "worker processes")
	flag.IntVar(&j.Clients, "clients", 16, "clients in each of them")
	flag.IntVar(&j.Queries, "queries", 8, "queries of each client")
	flag.IntVar(&j.Limit, "limit", 4, "queries at once, all processes together")
	rows := flag.Int("rows", 50_000, "rows of the table")
	flag.Parse()
	program.Run(func(ctx context.Context) error { return run(ctx, os.Stdout, j, *rows) })
}

func run(ctx context.Context, out io.Writer, j job, rows int) error {
	if min(j.Processes, j.Clients, j.Queries, j.Limit, rows) < 1 {
		return errors.New("give every number as 1 or more")
	}
	redis, err := store.Open(j.Redis)
	if err != nil {
		return err
	}
	defer redis.Close()
	server, err := postgres.Open(ctx, j.DSN)
	if err != nil {
		return err
	}
	defer server.Close()
	if err := seed(ctx, server.DSN, rows); err != nil {
		return err
	}
	j.Redis, j.DSN = redis.URL, server.DSN
	fmt.Fprintf(out, "%v; %d processes with %d clients each\n\n", redis, j.Processes, j.Clients)
	return j.compare(ctx, out)
}

// seed creates the table that the queries read.
func seed(ctx context.Context, dsn string, rows int) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, fmt.Sprintf(`DROP TABLE IF EXISTS sale;
		CREATE TABLE sale AS SELECT i AS id, i * 7919 %% 5000 AS customer, i * 104729 %% 1000 AS amount
			FROM generate_series(1, %d::bigint) AS i;
		CREATE UNIQUE INDEX ON sale (id);
		ANALYZE sale`, rows))
	return err
}

// compare prints two tables: one about plain queries, and one about a report that has not
// been computed yet. Each run names its reports anew, so that the cache is empty.
func (j job) compare(ctx context.Context, out io.Writer) error {
	free, limited := j, j
	free.Phase, free.Limit = "no limit", 0
	limited.Phase = fmt.Sprintf("%d permits", j.Limit)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "queries\tat once\ttook\ton the server p50\tp99\twith the wait p50\tp99")
	for _, j := range []job{free, limited} {
		all, err := j.inAllProcesses(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%d\t%v\t%v\t%v\t%v\t%v\n", j.Phase, all.peak, all.took,
			all.Queries.Quantile(.5), all.Queries.Quantile(.99), all.Calls.Quantile(.5), all.Calls.Quantile(.99))
	}
	alone := free
	alone.Phase, alone.Alone = "1 permit", true
	cold := fmt.Sprintf("example:report:%d:", time.Now().UnixNano())
	fmt.Fprintln(table, "\ncold report\tcomputed\tat once\ttook\treader p50\tp99")
	for _, j := range []job{free, alone} {
		j.Report = cold + j.Phase
		all, err := j.inAllProcesses(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%v\t%v\t%v\n", j.Phase, all.Computed, all.peak, all.took, all.Calls.Quantile(.5), all.Calls.Quantile(.99))
	}
	return table.Flush()
}

// inAllProcesses runs the job in all worker processes and adds up what they report.
func (j job) inAllProcesses(ctx context.Context) (all result, err error) {
	j.Phase = "berth: " + j.Phase
	all.peak, err = watch(ctx, j.DSN, j.Phase, func() error {
		start := time.Now()
		results, err := program.Workers[result](ctx, j.Processes, j)
		all.took = stats.Round(time.Since(start))
		for _, r := range results {
			all.Calls = append(all.Calls, r.Calls...)
			all.Queries = append(all.Queries, r.Queries...)
			all.Computed += r.Computed
		}
		return err
	})
	return all, err
}
