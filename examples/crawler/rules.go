package main

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/temoto/robotstxt"

	"github.com/berth-go/berth"
)

// maxDelay is the longest delay that a host may ask for; others are not crawled.
const maxDelay = time.Minute

// rules are what a host asks of crawlers.
type rules struct {
	group  *robotstxt.Group // nil: nothing may be fetched
	atOnce int              // concurrent requests
	rate   int              // requests in any time of length per
	per    time.Duration    // 0: there is no rate
	note   string           // for the summary
}

// Request-rate: 3/10s is a widespread extension: 3 pages in 10 seconds.
var requestRate = regexp.MustCompile(`(?im)^[ \t]*request-rate[ \t]*:[ \t]*([1-9]\d{0,5})/(\d{1,6})([smh]?)`)

// rules returns the rules in a robots.txt, by RFC 9309: no file (4xx) allows everything, no
// answer (5xx, time-out) forbids everything.
//
// A Crawl-delay of 2 is one request at once and one in 2 seconds, a Request-rate of 3/10s three at
// once and three in 10 seconds.
func (j *job) rules(file answer) rules {
	class := file.Status / 100
	if class != 2 {
		// A redirect, too, counts as no file: it may lead to another host, whose permit this
		// process does not hold.
		file.Body = nil
	}
	robots, err := robotstxt.FromBytes(file.Body)
	if err != nil || class < 2 || class > 4 {
		return rules{atOnce: 1, note: fmt.Sprintf("no robots.txt (%d): nothing fetched", file.Status)}
	}
	r := rules{group: robots.FindGroup(agent), atOnce: j.PerHost}
	// Rates for other agents count, too: being more polite than necessary does no harm.
	for _, m := range requestRate.FindAllSubmatch(file.Body, -1) {
		r.rate, _ = strconv.Atoi(string(m[1])) // at most six digits
		r.atOnce = r.rate
		r.per, _ = time.ParseDuration(string(m[2]) + cmp.Or(string(m[3]), "s"))
		r.note = string(m[0])
	}
	if delay := r.group.CrawlDelay; delay != 0 { // stricter
		r.atOnce, r.rate, r.per, r.note = 1, 1, delay, fmt.Sprintf("Crawl-delay %v", delay)
	}
	if r.per < 0 || r.per > maxDelay { // a negative one, or one too large for a number
		return rules{atOnce: 1, note: "too long a delay: nothing fetched"}
	}
	r.atOnce = min(r.atOnce, j.Total)
	return r
}

// options are those of the host's semaphore. The time between a grant and its request differs, so
// the rate has a little longer than the host asks for.
func (r rules) options(ttl time.Duration) []berth.Option {
	opts := []berth.Option{berth.TTL(ttl)}
	if r.per > 0 {
		opts = append(opts, berth.Rate(r.rate, max(r.per+r.per/50, berth.MinTTL)))
	}
	return opts
}

func (r rules) allows(u *url.URL) bool { return r.group != nil && r.group.Test(u.RequestURI()) }
