package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/temoto/robotstxt"
)

// robotsFile is a host's answer to /robots.txt, as all processes share it.
type robotsFile struct {
	Status int    // 0: no answer
	Body   []byte // at most mostRobots of it
}

// rules are what a host asks of crawlers.
type rules struct {
	group  *robotstxt.Group // nil: nothing may be fetched
	atOnce int              // requests at once
	hold   time.Duration    // how long each of them counts at least
	note   string           // for the summary
}

// Request-rate: 3/10s is a widespread extension: 3 pages in 10 seconds.
var requestRate = regexp.MustCompile(`(?im)^[ \t]*request-rate[ \t]*:[ \t]*(\d{1,6})/(\d{1,6})([smh]?)`)

// parseRules reads what a host answered, by RFC 9309: no file (4xx) allows
// everything, no answer (5xx, time-out) forbids everything.
//
// A limit on the rate becomes one on what runs at once by counting each request
// for longer than it takes: one permit that is held for 2 seconds is a
// Crawl-delay of 2, three permits held for 10 seconds are a Request-rate of 3/10s.
func parseRules(raw []byte, atOnce int, longest time.Duration) rules {
	var file robotsFile
	if err := json.Unmarshal(raw, &file); err != nil || file.Status == 0 {
		return rules{atOnce: 1, note: "no answer to /robots.txt: nothing fetched"}
	}
	if file.Status >= http.StatusInternalServerError {
		return rules{atOnce: 1, note: fmt.Sprintf("/robots.txt: status %d: nothing fetched", file.Status)}
	}
	data, err := robotstxt.FromStatusAndBytes(file.Status, file.Body)
	if err != nil {
		return rules{atOnce: 1, note: "unreadable /robots.txt: nothing fetched"}
	}
	r := rules{group: data.FindGroup(agent), atOnce: atOnce}
	if delay := r.group.CrawlDelay; delay != 0 {
		r.atOnce, r.hold = 1, delay
		r.note = fmt.Sprintf("Crawl-delay %v", delay)
	}
	// Whichever agent it is for: more politeness than was asked for does no harm.
	for _, m := range requestRate.FindAllSubmatch(file.Body, -1) {
		r = r.withRate(m)
	}
	if r.hold < 0 || r.hold > longest { // a negative one, or one too large for a number
		return rules{atOnce: 1, note: fmt.Sprintf("asks for more than %v between requests: nothing fetched", longest)}
	}
	return r
}

// withRate takes a Request-rate, unless there is a delay, which is stricter.
func (r rules) withRate(match [][]byte) rules {
	pages, _ := strconv.Atoi(string(match[1])) // digits, and few
	seconds, _ := strconv.Atoi(string(match[2]))
	unit := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour}[string(match[3])]
	if pages < 1 || r.hold > 0 && r.atOnce == 1 {
		return r
	}
	r.atOnce, r.hold = pages, time.Duration(seconds)*unit
	r.note = fmt.Sprintf("Request-rate %s/%s%s", match[1], match[2], match[3])
	return r
}

func (r rules) allows(u *url.URL) bool {
	return r.group != nil && r.group.Test(u.RequestURI())
}
