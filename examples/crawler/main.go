// Command crawler is a small polite crawler: several processes that together
// keep to what each host's robots.txt allows. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/berth-go/berth/examples/internal/fleet"
	"github.com/berth-go/berth/examples/internal/store"
)

func main() {
	fleet.Main(work)
	store.Quiet() // an outage is reported as progress
	var j job
	flag.StringVar(&j.Redis, "redis", os.Getenv("REDIS_URL"), "`URL` of the Redis; default: an embedded store, and then nothing can be resumed")
	flag.StringVar(&j.Name, "name", "crawl", "`name` of the crawl: the same one resumes it")
	flag.StringVar(&j.Connect, "connect", "", "`address` to send all requests to, whatever their host")
	flag.IntVar(&j.PerHost, "per-host", 2, "requests at once to a host whose robots.txt does not say")
	flag.IntVar(&j.Total, "total", 16, "requests at once to all hosts together")
	flag.IntVar(&j.Depth, "depth", 16, "links to follow from a seed")
	flag.IntVar(&j.Most, "pages", 1000, "pages of each host")
	flag.DurationVar(&j.Timeout, "timeout", 20*time.Second, "for each request")
	flag.DurationVar(&j.TTL, "ttl", 15*time.Second, "how long a killed process's permits are missing")
	flag.DurationVar(&j.MaxDelay, "max-delay", time.Minute, "longest Crawl-delay; hosts that ask for more are left alone")
	flag.DurationVar(&j.Patience, "patience", time.Minute, "how long to wait for a Redis that is away")
	processes := flag.Int("processes", 3, "worker processes")
	fresh := flag.Bool("fresh", false, "forget what the crawl of this name has done")
	demo := flag.Bool("demo", false, "crawl a site of the program's own")
	flag.Usage = usage
	flag.Parse()
	seeds := flag.Args()
	if *demo {
		j.Connect, seeds = startDemo()
	}
	if len(seeds) == 0 {
		usage()
		os.Exit(2) // as package flag does
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := crawl(ctx, os.Stdout, j, seeds, *processes, *fresh); err != nil {
		fmt.Fprintln(os.Stderr, "crawler:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprint(flag.CommandLine.Output(), `usage: crawler [flags] PAGE...   crawl the hosts of these pages
       crawler [flags] -demo     crawl a site of the program's own

Flags:
`)
	flag.PrintDefaults()
}

// crawl runs a crawl, or the rest of one, and prints its progress and summary.
func crawl(ctx context.Context, out io.Writer, j job, seeds []string, processes int, fresh bool) error {
	if j.PerHost < 1 || j.Total < 1 || j.Depth < 0 || j.Most < 1 || processes < 1 || j.Timeout <= 0 {
		return errors.New("give every number as 1 or more")
	}
	pages, err := j.start(seeds)
	if err != nil {
		return err
	}
	redis, err := store.Open(j.Redis)
	if err != nil {
		return err
	}
	defer redis.Close()
	j.Redis = redis.URL
	rdb, err := store.Connect(j.Redis)
	if err != nil {
		return err
	}
	defer rdb.Close()
	f := newFrontier(rdb, j)
	if fresh {
		if err := f.forget(ctx); err != nil {
			return err
		}
	}
	if err := f.add(ctx, pages); err != nil {
		return err
	}
	fmt.Fprintln(out, redis)
	died := follow(ctx, out, f, j, processes)
	// Also after Ctrl-C: the summary says what is left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	left, err := summary(ctx, out, f, j)
	if died != nil && err == nil && left == 0 {
		fmt.Fprintf(out, "\nAll is done, although not all workers lived to see it: %v\n", died)
		return nil
	}
	return errors.Join(died, err)
}

// follow runs the worker processes and shows how they get on.
func follow(ctx context.Context, out io.Writer, f *frontier, j job, processes int) error {
	ended := make(chan error, 1)
	go func() {
		_, err := fleet.Run[struct{}](ctx, slices.Repeat([]job{j}, processes))
		ended <- err
	}()
	for start, tick := time.Now(), time.Tick(time.Second); ; {
		select {
		case err := <-ended:
			return err
		case <-tick:
		}
		asked, cancel := context.WithTimeout(ctx, time.Second)
		n, err := f.counts(asked, "all")
		cancel()
		if err != nil {
			fmt.Fprintln(out, "redis does not answer: nothing is fetched without a permit")
			continue
		}
		fmt.Fprintf(out, "%4.0fs  %d to do  %d fetched  %d moved  %d failed  %d disallowed\n",
			time.Since(start).Seconds(), n["pending"], n[fetched], n[moved], n[failed], n[disallowed])
	}
}

// summary prints a line for each host and returns how many pages are left.
func summary(ctx context.Context, out io.Writer, f *frontier, j job) (left int, err error) {
	hosts, left, err := f.status(ctx)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nhost\tat once\tfetched\tmoved\tfailed\tdisallowed\tbeyond the bounds\tKB\trobots.txt")
	for _, host := range hosts {
		n, err := f.counts(ctx, "host:"+host)
		if err != nil {
			return 0, err
		}
		raw, _ := f.robots(ctx, host) // none yet: the rules of no answer
		r := parseRules(raw, j.PerHost, j.MaxDelay)
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", host, r.atOnce,
			n[fetched], n[moved], n[failed], n[disallowed], n["beyond"], n["bytes"]/1000, r.note)
	}
	if left > 0 {
		fmt.Fprintf(table, "\n%d pages are left: run the same command again to resume\n", left)
	}
	return left, errors.Join(err, table.Flush())
}
