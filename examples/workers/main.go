// Command workers runs jobs of two kinds in one queue: exports, of which an API allows two at once, and
// mails. Once each worker waits for its permit, and once it gives the job back. See README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/examples/internal/stats"
	"github.com/berth-go/berth/examples/internal/store"
)

func main() {
	url := flag.String("redis", os.Getenv("REDIS_URL"), "`URL` of the Redis; default: an embedded store")
	queue := flag.String("queue", "asynq", "`name` of the job queue: asynq, or river, which needs PostgreSQL's programs")
	flag.Parse()
	program.Run(func(ctx context.Context) error { return run(ctx, os.Stdout, *url, *queue) })
}

// queues start workers that do the demo's jobs, and return a function that ends them.
var queues = map[string]func(d *demo, ctx context.Context) (end func(), err error){
	"asynq": (*demo).onAsynq,
	"river": (*demo).onRiver,
}

// demo is a run with 4 workers.
type demo struct {
	url   string // of the Redis
	store *store.Store
	sem   *berth.Semaphore
	waits bool // for permits, instead of giving jobs back

	mu      sync.Mutex
	start   time.Time
	left    int // jobs
	working int // exports
	atOnce  int
	mails   time.Duration // until the last one was done
	backs   int           // jobs that were given back
	done    chan struct{}
}

const exports, mails = 12, 12

func run(ctx context.Context, out io.Writer, url, queue string) error {
	begin, ok := queues[queue]
	if !ok {
		return fmt.Errorf("there is no queue %q: use asynq or river", queue)
	}
	redis, err := store.Open(url)
	if err != nil {
		return err
	}
	defer redis.Close()
	client, err := berth.New(redis.Client)
	if err != nil {
		return err
	}
	defer client.Close()
	sem, err := client.Semaphore("exports", 2)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%v; 4 workers of %s; %d exports, 2 at once, and then %d mails\n\n", redis, queue, exports, mails)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "a worker\ttook\tmails done after\texports at once\tgiven back")
	for _, waits := range []bool{true, false} {
		d := &demo{url: redis.URL, store: redis, sem: sem, waits: waits, left: exports + mails, done: make(chan struct{})}
		if err := d.run(ctx, begin); err != nil {
			return err
		}
		what := map[bool]string{true: "waits", false: "gives jobs back"}[waits]
		fmt.Fprintf(table, "%s\t%v\t%v\t%d\t%d\n", what, stats.Round(time.Since(d.start)), stats.Round(d.mails), d.atOnce, d.backs)
	}
	return table.Flush()
}

func (d *demo) run(ctx context.Context, begin func(*demo, context.Context) (func(), error)) error {
	end, err := begin(d, ctx)
	if err != nil {
		return err
	}
	defer end()
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// export is a job that calls the API.
func (d *demo) export(ctx context.Context) error {
	d.mu.Lock()
	d.working++
	d.atOnce = max(d.atOnce, d.working)
	d.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(500 * time.Millisecond):
	}
	d.mu.Lock()
	d.working--
	d.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.finish(false)
	return nil
}

func (d *demo) finish(mail bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if mail {
		d.mails = time.Since(d.start)
	}
	if d.left--; d.left == 0 {
		close(d.done)
	}
}

// waiting is how programs begin: the worker waits for its permit.
func (d *demo) waiting(ctx context.Context) error { return d.sem.Do(ctx, d.export) }
