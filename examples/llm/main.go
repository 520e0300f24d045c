// Command llm has several processes call an API that allows so many calls at once, and so many calls
// and tokens per minute, for three tenants of which one is greedy, and compares ways to keep to that.
// See README.md.
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
	flag.IntVar(&j.Greedy, "greedy", 20, "calls of the greedy tenant in each of them, all at once")
	flag.IntVar(&j.Small, "small", 4, "calls of each small tenant in each of them, one after the other")
	flag.IntVar(&j.Limit, "limit", 5, "calls at once that the API allows")
	flag.IntVar(&j.Rate, "rate", 60, "calls per minute that the API allows")
	flag.IntVar(&j.Tokens, "tokens", 9000, "tokens per minute that the API allows")
	flag.IntVar(&j.Most, "most", 300, "tokens that a call may use; it uses half of them on average")
	flag.DurationVar(&j.Minute, "minute", 3*time.Second, "how long the API's minute is: 1m is the real one, and takes 20 times as long")
	takes := flag.Duration("takes", 100*time.Millisecond, "how long the API works on a call")
	flag.Parse()
	program.Run(func(ctx context.Context) error { return run(ctx, os.Stdout, j, *takes) })
}

// tenants are those for whom the processes call.
var tenants = []string{"greedy", "small-1", "small-2"}

// ways are how the processes keep to what the API allows.
var ways = []string{"no limit", "estimates", "settled", "tenants"}

// run has the calls made in each way, and prints a line for each tenant.
func run(ctx context.Context, out io.Writer, j job, takes time.Duration) error {
	if min(j.Processes, j.Greedy, j.Small, j.Limit, j.Rate, j.Most) < 1 || j.Minute < time.Millisecond {
		return errors.New("give every number as 1 or more")
	}
	if j.Tokens < j.Most {
		return errors.New("give -tokens at least what a call may use, -most")
	}
	redis, err := store.Open(j.Redis)
	if err != nil {
		return err
	}
	defer redis.Close()
	fmt.Fprintf(out, "%v\n%d processes; the API allows %d calls at once, and %d calls and %d tokens in %v\n\n",
		redis, j.Processes, j.Limit, j.Rate, j.Tokens, j.Minute)
	j.Redis = redis.URL
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\ttook\ttokens used\ttenant\tcalls\trefused (429)\twait p50\tp99")
	for _, j.Way = range ways {
		start := time.Now()
		api := startAPI(j, takes)
		j.URL = api.URL
		waits, err := j.inAllProcesses(ctx)
		api.Close()
		if err != nil {
			return err
		}
		took := time.Since(start)
		head := fmt.Sprintf("%s\t%v\t%.0f %%", j.Way, stats.Round(took), 100*api.use(start))
		for _, tenant := range tenants {
			w := waits[tenant]
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%v\t%v\n", head, tenant, len(w), api.refused[tenant], w.Quantile(.5), w.Quantile(.99))
			head = "\t\t"
		}
	}
	return table.Flush()
}

// inAllProcesses has all worker processes call the API, and returns how long each tenant's calls
// took.
func (j job) inAllProcesses(ctx context.Context) (map[string]stats.Durations, error) {
	results, err := program.Workers[map[string]stats.Durations](ctx, j.Processes, j)
	all := map[string]stats.Durations{}
	for _, r := range results {
		for tenant, waits := range r {
			all[tenant] = append(all[tenant], waits...)
		}
	}
	return all, err
}
