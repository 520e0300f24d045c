package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/temoto/robotstxt"
)

// maxHold is the longest delay to put up with; hosts that ask for more are left alone.
const maxHold = time.Minute

// rules are what a host asks of crawlers.
type rules struct {
	group  *robotstxt.Group // nil: nothing may be fetched
	atOnce int              // requests at once
	hold   time.Duration    // how long each of them counts at least
	note   string           // for the summary
}

// Request-rate: 3/10s is a widespread extension: 3 pages in 10 seconds.
var requestRate = regexp.MustCompile(`(?im)^[ \t]*request-rate[ \t]*:[ \t]*([1-9]\d{0,5})/(\d{1,6})([smh]?)`)

// rules reads the host's robots.txt by RFC 9309: no file (4xx) allows everything, no
// answer (5xx, time-out) forbids everything.
//
// A limit on the rate becomes one on what runs at once by counting each request
// for longer than it takes: one permit that is held for 2 seconds is a
// Crawl-delay of 2, three permits held for 10 seconds are a Request-rate of 3/10s.
func (j *job) rules(host string) rules {
	file := j.Robots[host]
	// A redirect may lead to a host whose permit nobody has: it is no file.
	if class := file.Status / 100; class == 3 || class == 4 {
		file = answer{Status: http.StatusNotFound}
	}
	robots, err := robotstxt.FromStatusAndBytes(file.Status, file.Body)
	if err != nil || file.Status >= http.StatusInternalServerError {
		return rules{atOnce: 1, note: fmt.Sprintf("no robots.txt (%d): nothing fetched", file.Status)}
	}
	r := rules{group: robots.FindGroup(agent), atOnce: j.PerHost}
	// Whichever agent a rate is for: more politeness than was asked for does no harm.
	for _, m := range requestRate.FindAllSubmatch(file.Body, -1) {
		r.atOnce, _ = strconv.Atoi(string(m[1])) // digits, and few
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
