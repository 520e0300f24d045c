package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/examples/internal/store"
)

// job is what a worker process needs to know of the crawl.
type job struct {
	Redis    string
	Name     string   // of the crawl
	Scheme   string   // of all pages
	Hosts    []string // that the crawl keeps to
	Connect  string   // address for all requests; "": as their hosts say
	PerHost  int      // requests at once to a host that says nothing of it
	Total    int      // requests at once to all hosts
	Depth    int      // links from a seed
	Most     int      // pages of a host
	Timeout  time.Duration
	TTL      time.Duration // of leases
	MaxDelay time.Duration // longest Crawl-delay to put up with
	Patience time.Duration // with a Redis that is away
}

// worker is one process of a crawl.
type worker struct {
	job      job
	client   *berth.Client
	total    *berth.Semaphore
	frontier *frontier
	fetcher  *fetcher
	inside   map[string]bool
}

// work is the whole of a worker process.
func work(ctx context.Context, j job) (struct{}, error) {
	store.Quiet()
	rdb, err := store.Connect(j.Redis)
	if err != nil {
		return struct{}{}, err
	}
	defer rdb.Close()
	client, err := berth.New(rdb, berth.Prefix("crawler"))
	if err != nil {
		return struct{}{}, err
	}
	defer client.Close()
	w, err := newWorker(rdb, client, j)
	if err != nil {
		return struct{}{}, err
	}
	defer w.fetcher.close()
	return struct{}{}, w.run(ctx)
}

func newWorker(rdb *redis.Client, client *berth.Client, j job) (w *worker, err error) {
	w = &worker{
		job: j, client: client, frontier: newFrontier(rdb, j), fetcher: newFetcher(j.Connect, j.Timeout), inside: map[string]bool{},
	}
	for _, host := range j.Hosts {
		w.inside[host] = true
	}
	w.total, err = client.Semaphore("total", j.Total, berth.TTL(j.TTL))
	return w, err
}

// run has a crew for every host until nothing is left to do, ctx ends, or Redis
// has been away for too long.
func (w *worker) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	crews := map[string]bool{}
	answered := time.Now()
	for ctx.Err() == nil {
		s, err := w.look(ctx)
		switch {
		case err == nil && s.pending == 0:
			return nil
		case err == nil:
			answered = time.Now()
		case ctx.Err() == nil && time.Since(answered) > w.job.Patience:
			return fmt.Errorf("redis has been away for %v; run the same command again to resume: %w", w.job.Patience, err)
		}
		for _, host := range s.hosts {
			if !crews[host] {
				crews[host] = true
				wg.Go(func() { (&crew{worker: w, host: host}).run(ctx) })
			}
		}
		rest(ctx)
	}
	return nil
}

func (w *worker) look(ctx context.Context) (status, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return w.frontier.status(ctx)
}
