package main

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed claim.lua
	claimText string
	//go:embed finish.lua
	finishText string

	claimScript  = redis.NewScript(claimText)
	finishScript = redis.NewScript(finishText)
)

// frontier is what a crawl has seen and what it has still to do. It is in Redis,
// so that a crawl outlives every process that works on it.
type frontier struct {
	rdb  *redis.Client
	base string // what all keys begin with
	most int    // pages of one host
	hold time.Duration
}

// page is one place in the crawl.
type page struct {
	url   string
	host  string
	depth int
}

// String returns the page as the scripts keep it in Redis: its depth and its URL.
func (p page) String() string { return fmt.Sprintf("%d %s", p.depth, p.url) }

// What can become of a page.
const (
	fetched    = "ok"
	moved      = "moved"
	failed     = "failed"
	disallowed = "disallowed"
)

func newFrontier(rdb *redis.Client, j job) *frontier {
	// What takes twice as long as a request may, has died or lost its Redis.
	return &frontier{rdb, fmt.Sprintf("crawl:{%s}:", j.Name), j.Most, 2 * j.Timeout}
}

// add notes pages to do. Those that the crawl has seen already are ignored.
func (f *frontier) add(ctx context.Context, pages []page) error {
	_, err := f.finish(ctx, page{}, "", 0, pages)
	return err
}

// claim takes a page of host; false if there is none. A page that is not
// finished in time is given to the next who asks.
func (f *frontier) claim(ctx context.Context, host string) (page, bool, error) {
	text, err := claimScript.Run(ctx, f.rdb, []string{f.base}, host, f.hold.Milliseconds()).Text()
	depth, url, ok := strings.Cut(text, " ")
	if err != nil || !ok {
		return page{}, false, err
	}
	n, err := strconv.Atoi(depth)
	return page{url, host, n}, err == nil, err
}

// finish notes what became of a claimed page; false if somebody else did before.
// Repeating it is harmless.
func (f *frontier) finish(ctx context.Context, p page, outcome string, size int, links []page) (bool, error) {
	args := []any{p.host, "", outcome, size, f.most}
	if outcome != "" {
		args[1] = p.String()
	}
	for _, link := range links {
		args = append(args, link.host, link.depth, link.url)
	}
	return finishScript.Run(ctx, f.rdb, []string{f.base}, args...).Bool()
}

// waiting tells whether host has pages that are not finished.
func (f *frontier) waiting(ctx context.Context, host string) (bool, error) {
	some, err := f.rdb.Exists(ctx, f.base+"todo:"+host, f.base+"busy:"+host).Result()
	return some > 0, err
}

// status returns the hosts, and how many pages are to do or being done.
func (f *frontier) status(ctx context.Context) (hosts []string, left int, err error) {
	if hosts, err = f.rdb.SMembers(ctx, f.base+"hosts").Result(); err != nil {
		return nil, 0, err
	}
	slices.Sort(hosts)
	n, err := f.counts(ctx, "all")
	return hosts, n["pending"], err
}

// counts returns how many pages came to what: of "all", or of "host:" and a host.
func (f *frontier) counts(ctx context.Context, of string) (map[string]int, error) {
	texts, err := f.rdb.HGetAll(ctx, f.base+of).Result()
	counts := map[string]int{}
	for name, text := range texts {
		counts[name], _ = strconv.Atoi(text) // HINCRBY wrote it
	}
	return counts, err
}

// robots returns what is known of host's robots.txt; redis.Nil for nothing.
func (f *frontier) robots(ctx context.Context, host string) ([]byte, error) {
	return f.rdb.HGet(ctx, f.base+"robots", host).Bytes()
}

func (f *frontier) setRobots(ctx context.Context, host string, raw []byte) error {
	return f.rdb.HSet(ctx, f.base+"robots", host, raw).Err()
}

// forget deletes all of the crawl.
func (f *frontier) forget(ctx context.Context) error {
	keys := f.rdb.Scan(ctx, 0, f.base+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := f.rdb.Del(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}
