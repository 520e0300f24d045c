// Command crawler is a small polite crawler of several processes, which together keep to
// what each host's robots.txt allows. See README.md.
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

	"github.com/redis/go-redis/v9/logging"

	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/examples/internal/store"
)

func main() {
	logging.Disable() // an outage is reported as progress
	program.Worker(work)
	var j job
	flag.StringVar(&j.Redis, "redis", os.Getenv("REDIS_URL"), "`URL` of the Redis; default: an embedded store; then nothing can be resumed")
	flag.StringVar(&j.Name, "name", "crawl", "`name` of the crawl: the same one resumes it")
	flag.IntVar(&j.PerHost, "per-host", 2, "requests at once to a host whose robots.txt does not say")
	flag.IntVar(&j.Total, "total", 16, "requests at once to all hosts together")
	flag.IntVar(&j.Most, "pages", 1000, "pages of each host")
	flag.DurationVar(&j.Timeout, "timeout", 20*time.Second, "for each request")
	flag.DurationVar(&j.TTL, "ttl", 15*time.Second, "how long a permit stays taken after its process is killed")
	processes := flag.Int("processes", 3, "worker processes")
	demo := flag.Bool("demo", false, "crawl a site of the program's own")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "usage: crawler [flags] PAGE...   or: crawler [flags] -demo\n\nFlags:\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	seeds := flag.Args()
	if *demo {
		j.Connect, seeds = startDemo()
	}
	if len(seeds) == 0 {
		flag.Usage()
		os.Exit(2) // as package flag does
	}
	program.Run(func(ctx context.Context) error { return crawl(ctx, os.Stdout, j, seeds, *processes) })
}

// crawl starts a crawl, or continues one, and prints its progress and summary.
func crawl(ctx context.Context, out io.Writer, j job, seeds []string, processes int) error {
	if min(j.PerHost, j.Total, j.Most, processes) < 1 || j.Timeout <= 0 {
		return errors.New("give every number as 1 or more")
	}
	redis, err := store.Open(j.Redis)
	if err != nil {
		return err
	}
	defer redis.Close()
	j.Redis = redis.URL
	f, err := j.start(ctx, redis.Client, newWeb(j), seeds)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, redis)
	ended := make(chan error, 1)
	go func() {
		_, err := program.Workers[struct{}](ctx, processes, j)
		ended <- err
	}()
	return errors.Join(progress(out, f, ended), summary(out, f))
}

// progress prints a line every second until the workers have ended.
func progress(out io.Writer, f *frontier, ended <-chan error) error {
	for start, tick := time.Now(), time.Tick(time.Second); ; {
		select {
		case err := <-ended:
			return err
		case <-tick:
		}
		if n, err := f.counts(f.hosts()...); err != nil {
			fmt.Fprintln(out, "redis is unreachable: nothing is fetched without a permit (Ctrl-C: leave the rest for later)")
		} else {
			fmt.Fprintf(out, "%4.0fs  %d to do  %d fetched  %d failed  %d disallowed\n",
				time.Since(start).Seconds(), n[todo], n[fetched], n[failed], n[disallowed])
		}
	}
}

// summary prints a line for each host, also after Ctrl-C.
func summary(out io.Writer, f *frontier) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nhost\tat once\tto do\tfetched\tfailed\tdisallowed\trobots.txt")
	for _, host := range f.hosts() {
		n, err := f.counts(host)
		if err != nil {
			return err
		}
		r := f.rules[host]
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%s\n", host, r.atOnce, n[todo], n[fetched], n[failed], n[disallowed], r.note)
	}
	return table.Flush()
}
