package main

import (
	"context"
	_ "embed"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed claim.lua
var claimText string

var claimScript = redis.NewScript(claimText)

// frontier is what a crawl has seen and what it has still to do. It is in Redis, so that
// a crawl outlives every process that works on it.
//
// The pages of a host are a sorted set. The score of one that is to do is the time in ms
// at which it is due, the score of one that is done says what became of it.
type frontier struct {
	rdb   *redis.Client
	job   job
	rules map[string]rules // of the hosts that the crawl keeps to
}

// Scores: a new page is due at once, the others are what can become of a page.
const (
	due        = 1
	fetched    = -1
	failed     = -2
	disallowed = -3
)

func newFrontier(rdb *redis.Client, j job) *frontier {
	f := &frontier{rdb, j, map[string]rules{}}
	for host := range j.Robots {
		f.rules[host] = j.rules(host)
	}
	return f
}

func (f *frontier) hosts() []string { return slices.Sorted(maps.Keys(f.rules)) }

func (f *frontier) key(of string) string { return "crawl:{" + f.job.Name + "}:" + of }

// add notes pages to do. Those that the crawl has seen already are ignored.
func (f *frontier) add(ctx context.Context, pages []*url.URL) error {
	_, err := f.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, page := range pages {
			seen := redis.Z{Score: due, Member: page.String()}
			if !f.rules[hostOf(page)].allows(page) {
				seen.Score = disallowed
			}
			p.ZAddNX(ctx, f.key(hostOf(page)), seen)
		}
		return nil
	})
	return err
}

// claim takes a page of host; redis.Nil if none is due. One that takes longer than twice
// the time for a request is given to somebody else.
func (f *frontier) claim(ctx context.Context, host string) (string, error) {
	return claimScript.Run(ctx, f.rdb, []string{f.key(host)}, 2*f.job.Timeout.Milliseconds()).Text()
}

// finish notes the pages that a page links to, and then what became of it: if this
// process or Redis dies in between, somebody claims the page again. It does so even after
// Ctrl-C, or the next run would fetch the page again. Links to other hosts are left out.
func (f *frontier) finish(host, page string, outcome float64, links []*url.URL) {
	ctx, cancel := context.WithTimeout(context.Background(), f.job.TTL)
	defer cancel()
	known := f.rdb.ZCard(ctx, f.key(host)).Val()
	links = slices.DeleteFunc(links, func(u *url.URL) bool {
		return !clean(u) || f.rules[hostOf(u)].atOnce == 0 || hostOf(u) == host && known >= int64(f.job.Most)
	})
	if f.add(ctx, links) == nil {
		f.rdb.ZAddXX(ctx, f.key(host), redis.Z{Score: outcome, Member: page})
	}
}

// counts returns how many pages of hosts are to do, and at 1 to 3 how many were fetched,
// failed and were disallowed, all at one moment. It fails after a second without Redis.
func (f *frontier) counts(hosts ...string) (n [4]int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
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
