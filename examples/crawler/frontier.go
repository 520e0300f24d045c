package main

import (
	"context"
	_ "embed"
	"maps"
	"net/url"
	"slices"

	"github.com/redis/go-redis/v9"
)

//go:embed claim.lua
var claimText string

var claimScript = redis.NewScript(claimText)

// frontier holds the pages that a crawl has seen and those that are left to fetch. It is
// in Redis, so that a crawl outlives every process that works on it.
//
// The pages of a host are a sorted set. The score of a page that is left to fetch is the
// time in ms at which it is due, 1 if that is at once. The score of any other page is its
// negative outcome.
type frontier struct {
	rdb   *redis.Client
	job   job
	rules map[string]rules // of the hosts that the crawl keeps to
}

// What may become of a page.
const (
	todo = iota
	fetched
	failed
	disallowed
)

// newFrontier returns the frontier of a crawl. It waits for an answer of Redis for as long as a
// lease lasts: go-redis repeats a command whose answer is late, and a claim that is repeated
// takes a second page, and leaves the first until its time is over.
func newFrontier(rdb *redis.Client, j job) *frontier {
	f := &frontier{rdb.WithTimeout(j.TTL), j, map[string]rules{}}
	for host, file := range j.Robots {
		f.rules[host] = j.rules(file)
	}
	return f
}

func (f *frontier) hosts() []string { return slices.Sorted(maps.Keys(f.rules)) }

func (f *frontier) key(host string) string { return "crawl:{" + f.job.Name + "}:" + host }

// add adds pages to fetch. It ignores those that the crawl has seen already.
func (f *frontier) add(ctx context.Context, pages []*url.URL) error {
	_, err := f.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, page := range pages {
			seen := redis.Z{Score: 1, Member: page.String()}
			if !f.rules[hostOf(page)].allows(page) {
				seen.Score = -disallowed
			}
			p.ZAddNX(ctx, f.key(hostOf(page)), seen)
		}
		return nil
	})
	return err
}

// claim returns a page of host that is due, or redis.Nil if there is none. A page that is
// not finished within twice the time-out of a request is given out again.
func (f *frontier) claim(ctx context.Context, host string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, f.job.TTL)
	defer cancel()
	return claimScript.Run(ctx, f.rdb, []string{f.key(host)}, 2*f.job.Timeout.Milliseconds()).Text()
}

// finish adds the pages that a page links to, except those of other hosts, and then sets
// the page's outcome: if this process or Redis dies in between, the page is claimed again.
// It works even after Ctrl-C, so that the next run does not fetch the page again.
func (f *frontier) finish(host, page string, outcome int, links []*url.URL) {
	ctx, cancel := context.WithTimeout(context.Background(), f.job.TTL)
	defer cancel()
	known := f.rdb.ZCard(ctx, f.key(host)).Val()
	links = slices.DeleteFunc(links, func(u *url.URL) bool {
		return !clean(u) || f.rules[hostOf(u)].atOnce == 0 || hostOf(u) == host && known >= int64(f.job.Most)
	})
	if f.add(ctx, links) == nil {
		f.rdb.ZAddXX(ctx, f.key(host), redis.Z{Score: float64(-outcome), Member: page})
	}
}

// counts returns how many pages of hosts are left to fetch, and how many have each outcome,
// all at one moment. It waits for Redis for as long as a lease lasts.
func (f *frontier) counts(hosts ...string) (n [4]int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), f.job.TTL)
	defer cancel()
	counts, err := f.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, host := range hosts {
			p.ZCount(ctx, f.key(host), "0", "inf")
			for _, score := range []string{"-1", "-2", "-3"} {
				p.ZCount(ctx, f.key(host), score, score)
			}
		}
		return nil
	})
	for i, count := range counts {
		n[i%len(n)] += count.(*redis.IntCmd).Val()
	}
	return n, err
}
