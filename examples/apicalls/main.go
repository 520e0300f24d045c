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
	"slices"
	"text/tabwriter"
	"time"

	"github.com/berth-go/berth/examples/internal/fleet"
	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/examples/internal/stats"
	"github.com/berth-go/berth/examples/internal/store"
)

// settings are the flags of the command line.
type settings struct {
	redis                            string
	processes, clients, calls, limit int
	takes                            time.Duration
}

func main() {
	fleet.Main(work)
	var s settings
	flag.StringVar(&s.redis, "redis", os.Getenv("REDIS_URL"), "`URL` of the Redis; default: an embedded store")
	flag.IntVar(&s.processes, "processes", 4, "worker processes")
	flag.IntVar(&s.clients, "clients", 8, "clients in each of them")
	flag.IntVar(&s.calls, "calls", 10, "calls of each client")
	flag.IntVar(&s.limit, "limit", 5, "calls at once that the API allows")
	flag.DurationVar(&s.takes, "takes", 30*time.Millisecond, "how long the API works on a call")
	flag.Parse()
	program.Run(func(ctx context.Context) error { return run(ctx, os.Stdout, s) })
}

func run(ctx context.Context, out io.Writer, s settings) error {
	if s.processes < 1 || s.clients < 1 || s.calls < 1 || s.limit < 1 {
		return errors.New("give every number as 1 or more")
	}
	redis, err := store.Open(s.redis)
	if err != nil {
		return err
	}
	defer redis.Close()
	s.redis = redis.URL
	server := startAPI(s.limit, s.takes)
	defer server.Close()
	fmt.Fprintf(out, "%v\n%d processes with %d clients each; the API allows %d calls at once\n\n", redis, s.processes, s.clients, s.limit)
	return s.compare(ctx, out, server)
}

func (s settings) compare(ctx context.Context, out io.Writer, server *api) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\ttook\tanswered\trequests sent\trefused (429)\tat once\tcall p50\tp99\tworst")
	for _, phase := range []struct {
		name  string
		limit int
	}{{"no limit", 0}, {"berthhttp", s.limit}} {
		start := time.Now()
		all, seen, err := s.phase(ctx, server, phase.limit)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%v\t%d\t%d\t%d\t%d\t%v\t%v\t%v\n", phase.name, stats.Round(time.Since(start)), seen.served, all.Sent,
			seen.refused, seen.peak, all.Calls.Quantile(.5), all.Calls.Quantile(.99), all.Calls.Quantile(1))
	}
	return table.Flush()
}

// phase has all worker processes call the API, and adds up what they and the API saw.
func (s settings) phase(ctx context.Context, server *api, limit int) (all result, seen tally, err error) {
	j := job{Redis: s.redis, URL: server.URL, Clients: s.clients, Calls: s.calls, Limit: limit}
	results, err := fleet.Run[result](ctx, slices.Repeat([]job{j}, s.processes))
	for _, r := range results {
		all.Calls = append(all.Calls, r.Calls...)
		all.Sent += r.Sent
	}
	return all, server.reset(), err
}
