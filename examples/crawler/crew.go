package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
)

// pause is how long a crew waits when there is nothing to do, or no Redis.
const pause = 100 * time.Millisecond

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
	for ctx.Err() == nil {
		err := c.learn(ctx)
		if err == nil {
			break
		}
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

func rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// learn finds out the host's rules, and so its limit.
func (c *crew) learn(ctx context.Context) error {
	raw, err := c.frontier.robots(ctx, c.host)
	if errors.Is(err, redis.Nil) {
		raw, err = c.ask(ctx)
	}
	if err != nil {
		return err
	}
	c.rules = parseRules(raw, c.job.PerHost, c.job.MaxDelay)
	c.rules.atOnce = min(c.rules.atOnce, c.job.Total)
	c.sem, err = c.semaphore(c.rules.atOnce, c.rules.hold)
	return err
}

// semaphore returns the host's. Its leases can outlast the host's delay without a
// renewal: see step.
func (c *crew) semaphore(limit int, hold time.Duration) (*berth.Semaphore, error) {
	return c.client.Semaphore("host/"+c.host, limit, berth.TTL(max(c.job.TTL, 2*hold)))
}

// ask fetches robots.txt: one process for all. Until its answer is known, the
// host's limit is 1.
func (c *crew) ask(ctx context.Context) ([]byte, error) {
	sem, err := c.semaphore(1, 0)
	if err != nil {
		return nil, err
	}
	leases, err := berth.AcquireAll(ctx, sem, c.total)
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
	raw, err = json.Marshal(file)
	if err != nil {
		return nil, err
	}
	return raw, c.frontier.setRobots(ctx, c.host, raw)
}

// step takes one page from the frontier to its end; false if there is none.
//
// Without a permit nothing is fetched: when Redis is away, the crawl stands
// still. The permits come before the page, so that nobody claims what it has yet
// to wait for.
func (c *crew) step(ctx context.Context) (bool, error) {
	if some, err := c.frontier.waiting(ctx, c.host); !some || err != nil {
		return false, err
	}
	// The names have the host before the total, so AcquireAll waits for a slow
	// host without keeping a permit from all others.
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

// finish insists, for as long as the claim lasts.
func (c *crew) finish(ctx context.Context, p page, a answer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.frontier.hold)
	defer cancel()
	found := c.pages(p, a.links)
	for {
		_, err := c.frontier.finish(ctx, p, a.outcome, a.size, found)
		if err == nil || ctx.Err() != nil {
			return err
		}
		rest(ctx)
	}
}

// pages returns those links that are within the crawl's bounds.
func (c *crew) pages(from page, refs []string) (found []page) {
	base, err := url.Parse(from.url)
	if err != nil || from.depth >= c.job.Depth {
		return nil
	}
	for _, ref := range refs {
		if u, ok := clean(base, ref); ok && c.inside[u.Host] && u.Scheme == c.job.Scheme {
			found = append(found, page{u.String(), u.Host, from.depth + 1})
		}
	}
	return found
}
