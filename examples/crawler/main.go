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

	"github.com/redis/go-redis/v9/logging"

	"github.com/berth-go/berth/examples/internal/fleet"
	"github.com/berth-go/berth/examples/internal/store"
)

func main() {
	fleet.Main(work)
	logging.Disable() // an outage is reported as progress
	var j job
	flag.StringVar(&j.Redis, "redis", os.Getenv("REDIS_URL"), "`URL` of the Redis; default: an embedded store, and then nothing can be resumed")
	flag.StringVar(&j.Name, "name", "crawl", "`name` of the crawl: the same one resumes it")
	flag.IntVar(&j.PerHost, "per-host", 2, "requests at once to a host whose robots.txt does not say")
	flag.IntVar(&j.Total, "total", 16, "requests at once to all hosts together")
	flag.IntVar(&j.Most, "pages", 1000, "pages of each host")
	flag.DurationVar(&j.Timeout, "timeout", 20*time.Second, "for each request")
	flag.DurationVar(&j.TTL, "ttl", 15*time.Second, "how long a killed process's permits are missing")
	flag.DurationVar(&j.Patience, "patience", time.Minute, "how long to wait for a Redis that is away")
	processes := flag.Int("processes", 3, "worker processes")
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
	if err := crawl(ctx, os.Stdout, j, seeds, *processes); err != nil {
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
func crawl(ctx context.Context, out io.Writer, j job, seeds []string, processes int) error {
	if j.PerHost < 1 || j.Total < 1 || j.Most < 1 || processes < 1 || j.Timeout <= 0 {
		return errors.New("give every number as 1 or more")
	}
	pages, err := j.start(ctx, newClient(j), seeds)
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
	fmt.Fprintln(out, redis)
	f := &frontier{rdb, j}
	if err := f.add(ctx, pages); err != nil {
		return err
	}
	return errors.Join(follow(ctx, out, f, processes), summary(out, f))
}

// follow runs the worker processes and shows how they get on.
func follow(ctx context.Context, out io.Writer, f *frontier, processes int) error {
	ended := make(chan error, 1)
	go func() {
		_, err := fleet.Run[struct{}](ctx, slices.Repeat([]job{f.job}, processes))
		ended <- err
	}()
	for start, tick := time.Now(), time.Tick(time.Second); ; {
		select {
		case err := <-ended:
			return err
		case <-tick:
		}
		asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		n, err := f.counts(asked, f.job.hosts()...)
		cancel()
		if err != nil {
			fmt.Fprintln(out, "redis does not answer: nothing is fetched without a permit")
			continue
		}
		fmt.Fprintf(out, "%4.0fs  %d to do  %d fetched  %d failed  %d disallowed\n", time.Since(start).Seconds(), n[0], n[1], n[2], n[3])
	}
}

// summary prints a line for each host, also after Ctrl-C.
func summary(out io.Writer, f *frontier) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nhost\tat once\tto do\tfetched\tfailed\tdisallowed\trobots.txt")
	for _, host := range f.job.hosts() {
		n, err := f.counts(ctx, host)
		if err != nil {
			return err
		}
		r := f.job.rules(host)
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n", host, r.atOnce, n[0], n[1], n[2], n[3], r.note)
	}
	return table.Flush()
}
