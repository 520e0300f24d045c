package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/examples/internal/store"
)

// job is what a worker process needs to know of the crawl.
type job struct {
	Redis    string
	Name     string            // of the crawl
	Robots   map[string][]byte // of the hosts that the crawl keeps to: see fetchRobots
	Connect  string            // address for all requests; "": as their hosts say
	PerHost  int               // requests at once to a host that says nothing of it
	Total    int               // requests at once to all hosts
	Most     int               // pages of a host
	Timeout  time.Duration
	TTL      time.Duration // of leases
	Patience time.Duration // with a Redis that is away
}

// start reads the seeds, takes the crawl's hosts from them and asks each for its
// robots.txt, for all processes.
func (j *job) start(ctx context.Context, http *http.Client, seeds []string) (pages []*url.URL, err error) {
	for _, seed := range seeds {
		u, err := url.Parse(seed)
		if err != nil || !clean(u) {
			return nil, fmt.Errorf("%q is no URL to start from: write http://host/path", seed)
		}
		pages = append(pages, u)
	}
	j.Robots = map[string][]byte{}
	for _, page := range pages {
		if host := hostOf(page); j.Robots[host] == nil {
			j.Robots[host] = fetchRobots(ctx, http, host)
		}
	}
	return pages, nil
}

// hosts returns those that the crawl keeps to.
func (j *job) hosts() []string { return slices.Sorted(maps.Keys(j.Robots)) }

// rules returns what a host asks of crawlers.
func (j *job) rules(host string) rules { return parseRules(j.Robots[host], j.PerHost) }

// worker is one process of a crawl.
type worker struct {
	job      job
	frontier *frontier
	http     *http.Client
	total    *berth.Semaphore
	hosts    []host
}

// host is a host of the crawl. All processes share its semaphore.
type host struct {
	*worker
	name  string
	rules rules
	sem   *berth.Semaphore
}

// work is the whole of a worker process.
func work(ctx context.Context, j job) (struct{}, error) {
	logging.Disable()
	rdb, client, err := store.Client(j.Redis, berth.Prefix("crawler"))
	if err != nil {
		return struct{}{}, err
	}
	defer rdb.Close()
	defer client.Close()
	w, err := newWorker(rdb, client, newClient(j), j)
	if err != nil {
		return struct{}{}, err
	}
	return struct{}{}, w.run(ctx)
}

func newWorker(rdb *redis.Client, client *berth.Client, http *http.Client, j job) (w *worker, err error) {
	w = &worker{job: j, frontier: &frontier{rdb, j}, http: http}
	if w.total, err = client.Semaphore("total", j.Total, berth.TTL(j.TTL)); err != nil {
		return nil, err
	}
	for _, name := range j.hosts() {
		r := j.rules(name)
		r.atOnce = min(r.atOnce, j.Total)
		// Its leases can outlast the host's delay without a renewal: see step.
		sem, err := client.Semaphore("host/"+name, r.atOnce, berth.TTL(max(j.TTL, 2*r.hold)))
		if err != nil {
			return nil, err
		}
		w.hosts = append(w.hosts, host{w, name, r, sem})
	}
	return w, nil
}

// run works until nothing is left to do, ctx ends, or Redis has been away for too long.
func (w *worker) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, h := range w.hosts {
		for range h.rules.atOnce {
			wg.Go(func() {
				for ctx.Err() == nil {
					if !h.step(ctx) {
						rest(ctx)
					}
				}
			})
		}
	}
	for answered := time.Now(); ctx.Err() == nil; rest(ctx) {
		asked, cancel := context.WithTimeout(ctx, 2*time.Second)
		n, err := w.frontier.counts(asked, w.job.hosts()...)
		cancel()
		if err == nil && n[0] == 0 {
			return nil
		}
		if err == nil {
			answered = time.Now()
		} else if time.Since(answered) > w.job.Patience {
			return fmt.Errorf("redis has been away for %v; run the same command again to resume: %w", w.job.Patience, err)
		}
	}
	return nil
}

// rest is for when there is nothing to do, or no Redis.
func rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
}

// step takes one page to its end; false if there is none, or no permit for it.
//
// Without a permit nothing is fetched: when Redis is away, the crawl stands
// still. The permits come before the page, so that nobody claims what it has yet
// to wait for. The names have the host before the total, so AcquireAll waits for a
// slow host without keeping a permit from all others.
func (h host) step(ctx context.Context) bool {
	if n, err := h.frontier.counts(ctx, h.name); err != nil || n[0] == 0 {
		return false
	}
	leases, err := berth.AcquireAll(ctx, h.sem, h.total)
	if err != nil {
		return false
	}
	defer func() { _ = leases.Release() }()
	// Should this process or Redis die now, nobody else may have the host's permit
	// before its delay is over.
	if time.Until(leases[0].ValidUntil()) < h.rules.hold {
		return false
	}
	page, err := h.frontier.claim(ctx, h.name)
	if err != nil {
		return false
	}
	h.visit(ctx, leases, page)
	return true
}

// visit fetches a page and notes what came of it, unless the leases are lost: then
// somebody will claim it again.
func (h host) visit(ctx context.Context, leases berth.Leases, page string) {
	u, err := url.Parse(page)
	if err != nil || !h.rules.allows(u) {
		h.finish(ctx, page, disallowed, nil)
		return
	}
	start := time.Now()
	held, cancel := leases.Context()
	defer cancel()
	outcome, links := fetch(held, h.http, u)
	if leases.Valid() {
		_ = leases[1].Release() // the total; the host's permit counts for longer
		h.finish(ctx, page, outcome, links)
	}
	<-time.After(time.Until(start.Add(h.rules.hold)))
}

// finish insists for as long as the claim lasts, even if ctx has ended: a page that was
// fetched is not to be fetched again by the next run. Links to other hosts are left out.
func (h host) finish(ctx context.Context, page string, outcome float64, links []*url.URL) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.frontier.hold())
	defer cancel()
	links = slices.DeleteFunc(links, func(u *url.URL) bool { return !clean(u) || h.job.Robots[hostOf(u)] == nil })
	for h.frontier.finish(ctx, h.name, page, outcome, links) != nil && ctx.Err() == nil {
		rest(ctx)
	}
}
