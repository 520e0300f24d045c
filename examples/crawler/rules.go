package main

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/temoto/robotstxt"
)

// maxHold is the longest delay that a host may ask for; others are not crawled.
const maxHold = time.Minute

// rules are what a host asks of crawlers.
type rules struct {
	group  *robotstxt.Group // nil: nothing may be fetched
	atOnce int              // concurrent requests
	hold   time.Duration    // for how long each of them counts at least
	note   string           // for the summary
}

// Request-rate: 3/10s is a widespread extension: 3 pages in 10 seconds.
var requestRate = regexp.MustCompile(`(?im)^[ \t]*request-rate[ \t]*:[ \t]*([1-9]\d{0,5})/(\d{1,6})([smh]?)`)

// rules returns the rules in a robots.txt, by RFC 9309: no file (4xx) allows everything, no
// answer (5xx, time-out) forbids everything.
//
// A limit on the rate becomes a limit on concurrency if each request holds its permit for
// longer than it takes: one permit that is held for 2 seconds is a Crawl-delay of 2, three
// permits that are held for 10 seconds are a Request-rate of 3/10s.
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
		r.atOnce, _ = strconv.Atoi(string(m[1])) // at most six digits
		r.hold, _ = time.ParseDuration(string(m[2]) + cmp.Or(string(m[3]), "s"))
		r.note = string(m[0])
	}
	if delay := r.group.CrawlDelay; delay != 0 { // stricter
		r.atOnce, r.hold, r.note = 1, delay, fmt.Sprintf("Crawl-delay %v", delay)
	}
	if r.hold < 0 || r.hold > maxHold { // a negative one, or one too large for a number
		return rules{atOnce: 1, note: "too long a delay: nothing fetched"}
	}
	r.atOnce = min(r.atOnce, j.Total)
	return r
}

func (r rules) allows(u *url.URL) bool { return r.group != nil && r.group.Test(u.RequestURI()) }
