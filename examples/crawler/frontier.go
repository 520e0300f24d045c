package main

import (
	"context"
	_ "embed"
	"net/url"
	"slices"
	"strconv"
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
	rdb *redis.Client
	job job
}

// What can become of a page.
const (
	fetched    = -1
	failed     = -2
	disallowed = -3
)

// due is the score of a new page: it is due at once.
const due = 1

func (f *frontier) key(of string) string { return "crawl:{" + f.job.Name + "}:" + of }

// hold is how long a page may take before it is given to somebody else.
func (f *frontier) hold() time.Duration { return 2 * f.job.Timeout }

// add notes pages to do. Those that the crawl has seen already are ignored.
func (f *frontier) add(ctx context.Context, pages []*url.URL) error {
	_, err := f.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, page := range pages {
			p.ZAddNX(ctx, f.key(hostOf(page)), redis.Z{Score: due, Member: page.String()})
		}
		return nil
	})
	return err
}

// claim takes a page of host; redis.Nil if none is due.
func (f *frontier) claim(ctx context.Context, host string) (string, error) {
	return claimScript.Run(ctx, f.rdb, []string{f.key(host)}, f.hold().Milliseconds()).Text()
}

// finish notes the pages that a page links to, and then what became of it: if this
// process dies in between, somebody claims the page again. Repeating it is harmless.
func (f *frontier) finish(ctx context.Context, host, page string, outcome float64, links []*url.URL) error {
	known, err := f.rdb.ZCard(ctx, f.key(host)).Result()
	if err != nil {
		return err
	}
	if known >= int64(f.job.Most) {
		links = slices.DeleteFunc(links, func(u *url.URL) bool { return hostOf(u) == host })
	}
	if err := f.add(ctx, links); err != nil {
		return err
	}
	return f.rdb.ZAddXX(ctx, f.key(host), redis.Z{Score: outcome, Member: page}).Err()
}

// counts returns how many pages of hosts are to do, and at 1 to 3 how many were fetched,
// failed and were disallowed, all at one moment.
func (f *frontier) counts(ctx context.Context, hosts ...string) (n [4]int64, err error) {
	counts, err := f.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for _, host := range hosts {
			p.ZCount(ctx, f.key(host), "0", "inf")
			for outcome := 1; outcome < len(n); outcome++ {
				score := strconv.Itoa(-outcome)
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
