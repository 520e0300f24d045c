package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// start reads the seeds, and takes the crawl's bounds from them.
func (j *job) start(seeds []string) (pages []page, err error) {
	if len(seeds) == 0 {
		return nil, errors.New("name a page to start from, or give -demo")
	}
	for _, seed := range seeds {
		u, ok := clean(nil, seed)
		if !ok {
			return nil, fmt.Errorf("%q is no URL to start from: write http://host/path", seed)
		}
		if j.Scheme != "" && j.Scheme != u.Scheme {
			return nil, errors.New("start from http or from https pages, not from both")
		}
		j.Scheme, j.Hosts = u.Scheme, append(j.Hosts, u.Host)
		pages = append(pages, page{u.String(), u.Host, 0})
	}
	return pages, nil
}

// worker is one process of a crawl.
type worker struct {
	job      job
	client   *berth.Client
	total    *berth.Semaphore
	frontier *frontier
	fetcher  *fetcher
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
	w = &worker{job: j, client: client, frontier: newFrontier(rdb, j), fetcher: newFetcher(j.Connect, j.Timeout)}
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
	crews, answered := map[string]bool{}, time.Now()
	for ; ctx.Err() == nil; rest(ctx) {
		asked, cancel := context.WithTimeout(ctx, 2*time.Second)
		hosts, left, err := w.frontier.status(asked)
		cancel()
		switch {
		case err == nil && left == 0:
			return nil
		case err == nil:
			answered = time.Now()
		case ctx.Err() == nil && time.Since(answered) > w.job.Patience:
			return fmt.Errorf("redis has been away for %v; run the same command again to resume: %w", w.job.Patience, err)
		}
		for _, host := range hosts {
			if !crews[host] {
				crews[host] = true
				wg.Go(func() { (&crew{worker: w, host: host}).run(ctx) })
			}
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

// crew fetches the pages of one host, in one process. All crews of a host, in
// all processes, share the host's limit; all crews of all hosts share the total.
type crew struct {
	*worker
	host  string
	rules rules
	sem   *berth.Semaphore
}

// run works until ctx ends. What goes wrong with Redis is tried again: the
// worker decides when that has gone on for too long.
func (c *crew) run(ctx context.Context) {
	for c.learn(ctx) != nil && ctx.Err() == nil {
		rest(ctx)
	}
	var wg sync.WaitGroup
	for range c.rules.atOnce {
		wg.Go(func() {
			for ctx.Err() == nil {
				if worked, err := c.step(ctx); !worked || err != nil {
					rest(ctx)
				}
			}
		})
	}
	wg.Wait()
}

// learn finds out the host's rules, and so its limit. One process asks for all.
func (c *crew) learn(ctx context.Context) error {
	raw, err := c.frontier.robots(ctx, c.host)
	if errors.Is(err, redis.Nil) {
		raw, err = c.ask(ctx)
	}
	if err != nil {
		return err
	}
	r := parseRules(raw, c.job.PerHost, c.job.MaxDelay)
	r.atOnce = min(r.atOnce, c.job.Total)
	// Its leases can outlast the host's delay without a renewal: see step.
	c.sem, err = c.client.Semaphore("host/"+c.host, r.atOnce, berth.TTL(max(c.job.TTL, 2*r.hold)))
	c.rules = r
	return err
}

func (c *crew) ask(ctx context.Context) ([]byte, error) {
	asking, err := c.client.Semaphore("robots/"+c.host, 1, berth.TTL(c.job.TTL))
	if err != nil {
		return nil, err
	}
	leases, err := berth.AcquireAll(ctx, asking, c.total)
	if err != nil {
		return nil, err
	}
	defer func() { _ = leases.Release() }()
	raw, err := c.frontier.robots(ctx, c.host) // another process may have asked while we waited
	if err == nil || !errors.Is(err, redis.Nil) {
		return raw, err
	}
	held, cancel := leases.Context()
	defer cancel()
	file := c.fetcher.robots(held, c.job.Scheme, c.host)
	if !leases.Valid() {
		return nil, berth.ErrLost
	}
	if raw, err = json.Marshal(file); err != nil {
		return nil, err
	}
	return raw, c.frontier.setRobots(ctx, c.host, raw)
}

// step takes one page from the frontier to its end; false if there is none.
//
// Without a permit nothing is fetched: when Redis is away, the crawl stands
// still. The permits come before the page, so that nobody claims what it has yet
// to wait for. The names have the host before the total, so AcquireAll waits for a
// slow host without keeping a permit from all others.
func (c *crew) step(ctx context.Context) (bool, error) {
	if some, err := c.frontier.waiting(ctx, c.host); !some || err != nil {
		return false, err
	}
	leases, err := berth.AcquireAll(ctx, c.sem, c.total)
	if err != nil {
		return false, err
	}
	defer func() { _ = leases.Release() }()
	// Should this process or Redis die now, nobody else may have the host's permit
	// before its delay is over.
	if time.Until(leases[0].ValidUntil()) < c.rules.hold {
		return false, nil
	}
	p, ok, err := c.frontier.claim(ctx, c.host)
	if !ok || err != nil {
		return false, err
	}
	return true, c.visit(ctx, leases, p)
}

// visit fetches p and notes what came of it. It ends in time even if ctx has
// ended: a page that was fetched is not to be fetched again by the next run.
func (c *crew) visit(ctx context.Context, leases berth.Leases, p page) error {
	u, ok := clean(nil, p.url)
	if !ok || !c.rules.allows(u) {
		return c.finish(ctx, p, answer{outcome: disallowed})
	}
	start := time.Now()
	held, cancel := leases.Context()
	defer cancel()
	a := c.fetcher.page(held, u)
	err := berth.ErrLost // then it is not finished: somebody will claim it again
	if leases.Valid() {
		_ = leases[1].Release() // the total; the host's permit counts for longer
		err = c.finish(ctx, p, a)
	}
	<-time.After(time.Until(start.Add(c.rules.hold)))
	return err
}

// finish insists, for as long as the claim lasts. Links beyond the crawl's bounds are
// left out.
func (c *crew) finish(ctx context.Context, p page, a answer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.frontier.hold)
	defer cancel()
	var found []page
	base, _ := clean(nil, p.url)
	for _, ref := range a.links {
		if u, ok := clean(base, ref); ok && p.depth < c.job.Depth && u.Scheme == c.job.Scheme && slices.Contains(c.job.Hosts, u.Host) {
			found = append(found, page{u.String(), u.Host, p.depth + 1})
		}
	}
	for ; ; rest(ctx) {
		if _, err := c.frontier.finish(ctx, p, a.outcome, a.size, found); err == nil || ctx.Err() != nil {
			return err
		}
	}
}
