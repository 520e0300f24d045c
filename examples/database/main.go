// Command database limits the queries that a fleet of processes runs on one
// PostgreSQL, keeps an expensive report from being computed by everybody at
// once, and shows what both are worth. See README.md.
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
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-go/berth/examples/internal/fleet"
	"github.com/berth-go/berth/examples/internal/postgres"
	"github.com/berth-go/berth/examples/internal/stats"
	"github.com/berth-go/berth/examples/internal/store"
)

// settings are the command line.
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
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Stdout, s); err != nil {
		fmt.Fprintln(os.Stderr, "database:", err)
		os.Exit(1)
	}
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

// seed makes the table that the queries read.
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

// phase is one line of a table.
type phase struct {
	name string
	job  job
}

func (s settings) measure(ctx context.Context, out io.Writer) error {
	plain := job{Clients: s.clients, Queries: s.queries}
	limited := plain
	limited.Limit = s.limit
	table := newTable(out, "queries", "at once", "took", "on the server p50", "p99", "with the wait p50", "p99", "bystander p50", "p99")
	for _, p := range []phase{{"no limit", plain}, {fmt.Sprintf("%d permits", s.limit), limited}} {
		all, w, took, err := s.phase(ctx, p)
		if err != nil {
			return err
		}
		table.row(p.name, w.peak, took, all.Queries.Quantile(.5), all.Queries.Quantile(.99),
			all.Calls.Quantile(.5), all.Calls.Quantile(.99), w.probes.Quantile(.5), w.probes.Quantile(.99))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return s.measureReport(ctx, out)
}

// measureReport has everybody read a report that nobody has computed yet. The
// names are new for each run, so that the cache is cold for sure.
func (s settings) measureReport(ctx context.Context, out io.Writer) error {
	cold := fmt.Sprintf("example:report:%d:", time.Now().UnixNano())
	table := newTable(out, "cold report", "computed", "at once", "took", "reader p50", "p99", "bystander p50", "p99")
	for _, p := range []phase{
		{"no limit", job{Clients: s.clients, Report: cold + "a"}},
		{"1 permit", job{Clients: s.clients, Report: cold + "b", Alone: true}},
	} {
		all, w, took, err := s.phase(ctx, p)
		if err != nil {
			return err
		}
		table.row(p.name, all.Computed, w.peak, took, all.Calls.Quantile(.5), all.Calls.Quantile(.99),
			w.probes.Quantile(.5), w.probes.Quantile(.99))
	}
	return table.Flush()
}

// phase runs the job in all worker processes and adds up what they report.
func (s settings) phase(ctx context.Context, p phase) (all result, w *watcher, took time.Duration, err error) {
	p.job.DSN, p.job.Redis, p.job.Phase = s.dsn, s.redis, "berth: "+p.name
	jobs := make([]job, s.processes)
	for i := range jobs {
		jobs[i] = p.job
	}
	if w, err = watch(ctx, s.dsn, p.job.Phase); err != nil {
		return all, nil, 0, err
	}
	start := time.Now()
	results, err := fleet.Run[result](ctx, jobs)
	took = time.Since(start)
	for _, r := range results {
		all.Calls = append(all.Calls, r.Calls...)
		all.Queries = append(all.Queries, r.Queries...)
		all.Computed += r.Computed
	}
	return all, w, stats.Round(took), errors.Join(err, w.stop())
}

// table prints aligned columns.
type table struct{ *tabwriter.Writer }

func newTable(out io.Writer, heads ...any) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	t.row(heads...)
	return t
}

func (t table) row(cells ...any) {
	for _, c := range cells {
		fmt.Fprint(t, c, "\t")
	}
	fmt.Fprintln(t)
}
