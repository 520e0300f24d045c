// Command apicalls calls an API that limits concurrent calls, from several processes,
// without and with berthhttp.Transport, and compares. See README.md.
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

	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/examples/internal/stats"
	"github.com/berth-go/berth/examples/internal/store"
)

func main() {
	program.Worker(work)
	var j job
	flag.StringVar(&j.Redis, "redis", os.Getenv("REDIS_URL"), "`URL` of the Redis; default: an embedded store")
	flag.IntVar(&j.Processes, "processes", 4, "worker processes")
	flag.IntVar(&j.Clients, "clients", 8, "clients in each of them")
	flag.IntVar(&j.Calls, "calls", 10, "calls of each client")
	flag.IntVar(&j.Limit, "limit", 5, "calls at once that the API allows")
	takes := flag.Duration("takes", 30*time.Millisecond, "how long the API works on a call")
	flag.Parse()
	program.Run(func(ctx context.Context) error { return run(ctx, os.Stdout, j, *takes) })
}

// run has the calls made twice, without and with a limit, and prints a line for each.
func run(ctx context.Context, out io.Writer, j job, takes time.Duration) error {
	if min(j.Processes, j.Clients, j.Calls, j.Limit) < 1 {
		return errors.New("give every number as 1 or more")
	}
	redis, err := store.Open(j.Redis)
	if err != nil {
		return err
	}
	defer redis.Close()
	api := startAPI(j.Limit, takes)
	defer api.Close()
	fmt.Fprintf(out, "%v\n%d processes with %d clients each; the API allows %d calls at once\n\n", redis, j.Processes, j.Clients, j.Limit)
	j.Redis, j.URL = redis.URL, api.URL
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\ttook\tanswered\trequests sent\trefused (429)\tat once\tcall p50\tp99\tworst")
	for _, name := range []string{"no limit", "berthhttp"} {
		j.Limited = name == "berthhttp"
		start := time.Now()
		all, err := j.inAllProcesses(ctx)
		if err != nil {
			return err
		}
		seen := api.reset()
		fmt.Fprintf(table, "%s\t%v\t%d\t%d\t%d\t%d\t%v\t%v\t%v\n", name, stats.Round(time.Since(start)), seen.served, all.Sent,
			seen.refused, seen.peak, all.Calls.Quantile(.5), all.Calls.Quantile(.99), all.Calls.Quantile(1))
	}
	return table.Flush()
}

// inAllProcesses has all worker processes call the API, and adds up what they saw.
func (j job) inAllProcesses(ctx context.Context) (all result, err error) {
	results, err := program.Workers[result](ctx, j.Processes, j)
	for _, r := range results {
		all.Calls = append(all.Calls, r.Calls...)
		all.Sent += r.Sent
	}
	return all, err
}
