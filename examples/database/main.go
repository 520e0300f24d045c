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
	"slices"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-go/berth/examples/internal/fleet"
	"github.com/berth-go/berth/examples/internal/postgres"
	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/examples/internal/stats"
	"github.com/berth-go/berth/examples/internal/store"
)

// settings are the flags of the command line.
type settings struct {
	redis, dsn                            string
	processes, clients, queries, limit, n int
}

func main() {
	fleet.Main(work)
	var s settings
	flag.StringVar(&s.redis, "redis", os.Getenv("REDIS_URL"), "`URL` of the Redis; default: an embedded store")
	flag.StringVar(&s.dsn, "database", "", "`address` of a PostgreSQL; default: one of its own. The table sale is made anew")
	flag.IntVar(&s.processes, "processes", 4, "worker processes")
	flag.IntVar(&s.clients, "clients", 16, "clients in each of them")
	flag.IntVar(&s.queries, "queries", 8, "queries of each client")
	flag.IntVar(&s.limit, "limit", 4, "queries at once, all processes together")
	flag.IntVar(&s.n, "rows", 50_000, "rows of the table")
	flag.Parse()
	program.Run(func(ctx context.Context) error { return run(ctx, os.Stdout, s) })
}

func run(ctx context.Context, out io.Writer, s settings) error {
	if s.processes < 1 || s.clients < 1 || s.queries < 1 || s.limit < 1 || s.n < 1 {
		return errors.New("give every number as 1 or more")
	}
	redis, err := store.Open(s.redis)
	if err != nil {
		return err
	}
	defer redis.Close()
	if s.dsn == "" {
		server, err := postgres.Start(ctx)
		if err != nil {
			return err
		}
		defer server.Close()
		s.dsn = server.DSN()
	}
	if err := seed(ctx, s.dsn, s.n); err != nil {
		return err
	}
	s.redis = redis.URL
	fmt.Fprintf(out, "%v; %d processes with %d clients each\n\n", redis, s.processes, s.clients)
	return s.measure(ctx, out)
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

// measure prints two tables: one about plain queries, and one about a report that has not
// been computed yet. Each run names its reports anew, so that the cache is empty.
func (s settings) measure(ctx context.Context, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "queries\tat once\ttook\ton the server p50\tp99\twith the wait p50\tp99")
	for _, p := range []struct {
		name  string
		limit int
	}{{"no limit", 0}, {fmt.Sprintf("%d permits", s.limit), s.limit}} {
		all, err := s.phase(ctx, p.name, job{Clients: s.clients, Queries: s.queries, Limit: p.limit})
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%d\t%v\t%v\t%v\t%v\t%v\n", p.name, all.peak, all.took,
			all.Queries.Quantile(.5), all.Queries.Quantile(.99), all.Calls.Quantile(.5), all.Calls.Quantile(.99))
	}
	cold := fmt.Sprintf("example:report:%d:", time.Now().UnixNano())
	fmt.Fprintln(table, "\ncold report\tcomputed\tat once\ttook\treader p50\tp99")
	for _, p := range []struct {
		name  string
		alone bool
	}{{"no limit", false}, {"1 permit", true}} {
		all, err := s.phase(ctx, p.name, job{Clients: s.clients, Report: cold + p.name, Alone: p.alone})
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%v\t%v\t%v\n", p.name, all.Computed, all.peak, all.took, all.Calls.Quantile(.5), all.Calls.Quantile(.99))
	}
	return table.Flush()
}

// phase runs the job in all worker processes and adds up what they report.
func (s settings) phase(ctx context.Context, name string, j job) (all result, err error) {
	j.DSN, j.Redis, j.Phase = s.dsn, s.redis, "berth: "+name
	w, err := watch(ctx, s.dsn, j.Phase)
	if err != nil {
		return all, err
	}
	start := time.Now()
	results, err := fleet.Run[result](ctx, slices.Repeat([]job{j}, s.processes))
	all.took = stats.Round(time.Since(start))
	for _, r := range results {
		all.Calls = append(all.Calls, r.Calls...)
		all.Queries = append(all.Queries, r.Queries...)
		all.Computed += r.Computed
	}
	err = errors.Join(err, w.stop())
	all.peak = w.peak
	return all, err
}
