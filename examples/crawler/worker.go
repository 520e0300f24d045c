package main

import (
	"context"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/examples/internal/store"
)

// job is what a worker process needs to know of the crawl.
type job struct {
	Redis   string
	Name    string            // of the crawl
	Robots  map[string]answer // robots.txt of the hosts that the crawl keeps to
	Connect string            // address for all requests; "": as their hosts say
	PerHost int               // concurrent requests to a host whose robots.txt sets no limit
	Total   int               // concurrent requests to all hosts
	Most    int               // pages of a host
	Timeout time.Duration
	TTL     time.Duration // of leases
}

// work is the whole of a worker process.
func work(ctx context.Context, j job) (none struct{}, err error) {
	redis, err := store.Open(j.Redis)
	if err != nil {
		return none, err
	}
	defer redis.Close()
	client, err := berth.New(redis.Client, berth.Prefix("crawler"))
	if err != nil {
		return none, err
	}
	defer client.Close()
	return none, j.run(ctx, redis.Client, client, newWeb(j))
}

// worker is a process that works on a crawl.
type worker struct {
	*frontier

	web   *http.Client
	total *berth.Semaphore
}

// run works until no page is left to fetch or ctx ends. All processes share the semaphore
// of each host, and the total.
func (j *job) run(ctx context.Context, rdb *redis.Client, client *berth.Client, web *http.Client) error {
	total, err := client.Semaphore("total", j.Total, berth.TTL(j.TTL), berth.Level(1))
	if err != nil {
		return err
	}
	w := worker{newFrontier(rdb, *j), web, total}
	all, ctx := errgroup.WithContext(ctx)
	for host, r := range w.rules {
		for range r.atOnce {
			all.Go(func() error {
				sem, err := client.Semaphore("host/"+host, r.atOnce, r.options(j.TTL)...)
				if err != nil {
					return err
				}
				w.fetchAll(ctx, host, sem)
				return nil
			})
		}
	}
	return all.Wait()
}

// fetchAll fetches a host's pages, one after the other, until no host has any left.
func (w worker) fetchAll(ctx context.Context, host string, sem *berth.Semaphore) {
	for ctx.Err() == nil {
		if w.step(ctx, host, sem) {
			continue
		}
		if n, err := w.counts(w.hosts()...); err == nil && n[todo] == 0 {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
}

// step fetches one page. It reports false if there is no page, or no permit for it.
//
// Without a permit nothing is fetched, so the crawl stands still while Redis is away. The
// permits come before the page, so that no process claims a page for which it then has to
// wait. AcquireAll takes the total last, because of its Level: waiting for a slow host keeps no
// permit from the other hosts.
func (w worker) step(ctx context.Context, host string, sem *berth.Semaphore) bool {
	if n, err := w.counts(host); err != nil || n[todo] == 0 {
		return false
	}
	leases, err := berth.AcquireAll(ctx, sem, w.total)
	if err != nil {
		return false
	}
	defer func() { _ = leases.Release() }()
	page, err := w.claim(ctx, host)
	if err != nil {
		return false
	}
	held, cancel := leases.Context()
	defer cancel()
	outcome, links := fetch(held, w.web, page)
	// After a loss of the leases the page is left to the next claim.
	if leases.Valid() {
		w.finish(host, page, outcome, links)
	}
	return true
}
