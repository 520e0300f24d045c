// Command sql runs more queries on a PostgreSQL than it has connections, from several processes that
// use database/sql: without a limit, and with berthsql. See README.md.
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

	"github.com/berth-go/berth/examples/internal/postgres"
	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/examples/internal/stats"
	"github.com/berth-go/berth/examples/internal/store"
)

// mostConnections is what the example's own PostgreSQL allows.
const mostConnections = 16

func main() {
	program.Worker(work)
	var j job
	flag.StringVar(&j.Redis, "redis", os.Getenv("REDIS_URL"), "`URL` of the Redis; default: an embedded store")
	flag.IntVar(&j.Clients, "clients", 8, "clients in each of 4 processes")
	flag.IntVar(&j.Rounds, "queries", 20, "queries of each client")
	flag.IntVar(&j.Queries, "limit", 4, "queries at once, all processes together")
	flag.Parse()
	program.Run(func(ctx context.Context) error { return run(ctx, os.Stdout, j) })
}

func run(ctx context.Context, out io.Writer, j job) error {
	if min(j.Clients, j.Rounds, j.Queries) < 1 {
		return errors.New("give every number as 1 or more")
	}
	redis, err := store.Open(j.Redis)
	if err != nil {
		return err
	}
	defer redis.Close()
	server, err := postgres.Open(ctx, "", fmt.Sprint("max_connections=", mostConnections))
	if err != nil {
		return err
	}
	defer server.Close()
	j.Redis, j.DSN, j.TTL = redis.URL, server.DSN, 30*time.Second

	fmt.Fprintf(out, "%v; 4 processes with %d clients each; the database allows %d connections\n\n", redis, j.Clients, mostConnections)
	free, limited := j, j
	free.Phase, free.Queries = "no limit", 0
	limited.Phase, limited.Connections = "berthsql", mostConnections-6
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\ttook\tanswered\trefused\tat once\tconnections")
	for _, j := range []job{free, limited} {
		start := time.Now()
		results, err := program.Workers[result](ctx, 4, j)
		if err != nil {
			return err
		}
		var all result
		for _, r := range results {
			all.add(r)
		}
		fmt.Fprintf(table, "%s\t%v\t%d\t%d\t%d\t%d\n", j.Phase, stats.Round(time.Since(start)), all.Answered, all.Refused, all.AtOnce, all.Open)
	}
	return table.Flush()
}
