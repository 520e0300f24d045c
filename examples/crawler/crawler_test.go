package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// asProgram, in the environment, makes this binary the program.
const asProgram = "CRAWLER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	program.Worker(work) // the worker processes are this binary
	redistest.Main(m)
}

// newJob returns the crawl of a fresh site with a Redis of its own. Its time-outs
// are for machines that do much else, so the host that is silent hangs up.
func newJob(t *testing.T) (job, *site, *redistest.Server) {
	t.Helper()
	s := startSite()
	t.Cleanup(s.close)
	s.hosts["silent.test"].robots = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	redis := redistest.Start(t)
	j := job{
		Redis: redis.URL(), Name: "test", Connect: s.addr(), PerHost: 2, Total: 7, Most: 150,
		Timeout: 10 * time.Minute, TTL: 5 * time.Minute,
	}
	return j, s, redis
}

// judge holds the site's records against what its robots.txt files allow, but for
// delays. most is how often a page may have been fetched.
func judge(t *testing.T, s *site, j job, most int) {
	t.Helper()
	if s.peak > j.Total {
		t.Errorf("%d requests at once, want at most %d", s.peak, j.Total)
	}
	for name, h := range s.hosts {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.peak > h.limit {
			t.Errorf("%s: %d requests at once, want at most %d", name, h.peak, h.limit)
		}
		judgePages(t, name, h, j, most)
	}
}

func judgePages(t *testing.T, name string, h *siteHost, j job, most int) {
	t.Helper()
	if n := h.hits["/robots.txt"]; n != 1 {
		t.Errorf("%s: robots.txt was fetched %d times", name, n)
	}
	delete(h.hits, "/robots.txt")
	for path, n := range h.hits {
		if n > most {
			t.Errorf("%s%s was fetched %d times", name, path, n)
		}
		if h.want != nil && !slices.Contains(h.want, path) {
			t.Errorf("%s%s was fetched", name, path)
		}
	}
	for _, path := range h.want {
		if h.hits[path] == 0 {
			t.Errorf("%s%s was not fetched", name, path)
		}
	}
	// What is fetched at the bound may still add its links.
	if n := len(h.hits); h.want == nil && (n < j.Most || n > j.Most+2*h.limit) {
		t.Errorf("%s: %d pages of the trap, want about %d", name, n, j.Most)
	}
}

func TestCrawlIsPoliteAndComplete(t *testing.T) {
	t.Parallel()
	j, s, _ := newJob(t)
	var out bytes.Buffer
	if err := crawl(t.Context(), &out, j, s.seeds(), 3); err != nil {
		t.Fatal(err)
	}
	judge(t, s, j, 1)
	for _, want := range []string{"http://three.test   3        0      150", "Crawl-delay 1s", "no robots.txt (503)", "no robots.txt (0)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, &out)
		}
	}
}

func TestCrawlOnTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	j, s, _ := newJob(t)
	j.Redis = ""
	if err := crawl(t.Context(), new(bytes.Buffer), j, s.seeds(), 2); err != nil {
		t.Fatal(err)
	}
	judge(t, s, j, 1)
}

func TestCrawlSurvivesAKilledProcess(t *testing.T) {
	t.Parallel()
	j, s, redis := newJob(t)
	j.TTL, j.Timeout = 15*time.Second, 10*time.Second // its pages are free again after twice the time-out
	s.hold = make(chan struct{})
	if _, err := j.start(t.Context(), redis.Client(t), newWeb(j), s.seeds()); err != nil {
		t.Fatal(err)
	}
	var workers []*child.Process
	for range 3 {
		w, err := program.Start(j)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Kill)
		workers = append(workers, w)
	}
	<-s.full
	workers[0].Kill()
	if err := workers[0].Wait(); err == nil {
		t.Error("the killed worker ended well")
	}
	close(s.hold)
	for _, w := range workers[1:] {
		if err := w.Wait(); err != nil {
			t.Error(err)
		}
	}
	judge(t, s, j, 2) // what it was fetching is fetched again
	if n, most := s.again(), s.inHand(); n > most {
		t.Errorf("%d pages were fetched twice, want at most the %d that hosts have permits for", n, most)
	}
}

// inHand returns how many pages can be claimed at a time. That is more than the total of
// requests: a page that has been fetched is still to be finished.
func (s *site) inHand() (n int) {
	for _, h := range s.hosts {
		n += h.limit
	}
	return n
}

// again returns how many requests were repeated.
func (s *site) again() (n int) {
	for _, h := range s.hosts {
		h.mu.Lock()
		for _, hits := range h.hits {
			n += hits - 1
		}
		h.mu.Unlock()
	}
	return n
}

func TestCrawlIsResumed(t *testing.T) {
	t.Parallel()
	j, s, redis := newJob(t)
	s.hold = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-s.full
		cancel()
		untilNobodyWaits(t, redis) // the workers know
		close(s.hold)
	}()
	var out bytes.Buffer
	if err := crawl(ctx, &out, j, s.seeds(), 2); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "http://three.test   3        0      150") {
		t.Fatalf("it was not interrupted:\n%s", &out)
	}
	if err := crawl(t.Context(), &out, j, s.seeds(), 2); err != nil {
		t.Fatal(err)
	}
	for _, h := range s.hosts {
		h.hits["/robots.txt"]-- // asked for by each run
	}
	judge(t, s, j, 1)
}

// untilNobodyWaits returns when no request is in the queue of any semaphore of the crawl.
func untilNobodyWaits(t *testing.T, redis *redistest.Server) {
	client, err := berth.New(redis.Client(t), berth.Prefix("crawler"))
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	for waiting := -1; waiting != 0; {
		sum := 0
		for s, err := range berthadmin.Of(client).List(t.Context()) {
			if sum += s.Waiting; err != nil { // the machine is too busy for Redis
				sum++
			}
		}
		waiting = sum
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			return
		}
	}
}

// Without Redis a crawl says so and waits, and it can be ended all the same.
func TestInterruptWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	j, s, redis := newJob(t)
	j.Timeout = 2 * time.Second
	s.mark = 50
	s.hold = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := told{text: "redis is unreachable", f: cancel}
	done := make(chan error, 1)
	go func() { done <- crawl(ctx, &out, j, s.seeds(), 2) }()
	<-s.full
	redis.Kill()
	close(s.hold)
	if err := <-done; err == nil {
		t.Error("it ended well")
	}
}

// told calls f once text is written.
type told struct {
	text string
	f    func()
}

func (w *told) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.f()
	}
	return len(p), nil
}

func TestSeedsThatAreNone(t *testing.T) {
	t.Parallel()
	j := job{Name: "x", PerHost: 1, Total: 1, Most: 1, Timeout: time.Second}
	for _, seed := range []string{"", "x", "://", "ftp://x.test/", "http://", "http:///x", "http://[::1/", "http://%zz/", "http://x.test:port/", "javascript:x()"} {
		if err := crawl(t.Context(), new(bytes.Buffer), j, []string{seed}, 1); err == nil || !strings.Contains(err.Error(), "not a URL") {
			t.Errorf("%q: %v", seed, err)
		}
	}
	if err := crawl(t.Context(), new(bytes.Buffer), job{}, nil, 0); err == nil {
		t.Error("no processes")
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	base, err := url.Parse("http://User:pw@A.test/b/c?d#e")
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"":                     "http://a.test/b/c?d",
		"x#y":                  "http://a.test/b/x",
		"//B.test":             "http://b.test/",
		"../../..":             "http://a.test/",
		"https://b.test/%41":   "https://b.test/%41",
		"http://[::1]:8080/":   "http://[::1]:8080/",
		"javascript:x()":       "",
		"http://x.test/x\x00y": "",
	} {
		u, err := base.Parse(ref)
		if ok := err == nil && clean(u); ok != (want != "") || ok && u.String() != want {
			t.Errorf("%q: %v, want %q", ref, u, want)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		text   string
		allows bool
		atOnce int
		per    time.Duration
	}{
		"no answer":                   {0, "", false, 1, 0},
		"none":                        {404, "User-agent: *\nDisallow: /", true, 2, 0},
		"refused":                     {403, "", true, 2, 0},
		"elsewhere":                   {301, "", true, 2, 0},
		"sick":                        {500, "User-agent: *\nAllow: /", false, 1, 0},
		"unknown":                     {700, "", false, 1, 0},
		"empty":                       {200, "", true, 2, 0},
		"binary":                      {200, "\x00\xff\xfe\n:::\n\n", true, 2, 0},
		"disallowed":                  {200, "User-agent: *\nDisallow: /", false, 2, 0},
		"of another":                  {200, "User-agent: other\nDisallow: /", true, 2, 0},
		"ours":                        {200, "User-agent: *\nAllow: /\nUser-agent: " + agent + "\nDisallow: /", false, 2, 0},
		"delay":                       {200, "User-agent: *\nCrawl-delay: 2.5", true, 1, 2500 * time.Millisecond},
		"endless delay":               {200, "User-agent: *\nCrawl-delay: 1e300", false, 1, 0},
		"long delay":                  {200, "User-agent: *\nCrawl-delay: 61", false, 1, 0},
		"rate":                        {200, "User-agent: *\nrequest-rate: 3/1m", true, 3, time.Minute},
		"above the total":             {200, "User-agent: *\nrequest-rate: 30/1m", true, 7, time.Minute},
		"rate of a file that is none": {404, "Request-rate: 3/1m", true, 2, 0},
		"rate of nothing":             {200, "User-agent: *\nRequest-rate: 0/1", true, 2, 0},
		"delay and rate":              {200, "User-agent: *\nCrawl-delay: 9\nRequest-rate: 3/1", true, 1, 9 * time.Second},
	} {
		r := (&job{PerHost: 2, Total: 7}).rules(answer{Status: tt.status, Body: []byte(tt.text)})
		if ok := r.allows(&url.URL{Path: "/x"}); ok != tt.allows || r.atOnce != tt.atOnce || r.per != tt.per {
			t.Errorf("%s: allowed %v, %d at once for %v: want %v, %d, %v", name, ok, r.atOnce, r.per, tt.allows, tt.atOnce, tt.per)
		}
	}
}

// A page that is not finished in time is given to the next who asks, and whoever
// finishes it does so once for all.
func TestClaimRunsOut(t *testing.T) {
	t.Parallel()
	redis := redistest.Shared(t)
	f := newFrontier(redis.Client(t), job{Name: redis.Prefix(t), Most: 10, TTL: time.Minute, Timeout: -1, // it runs out at once
		Robots: map[string]answer{"http://a.test": {Status: 404}}})
	page := &url.URL{Scheme: "http", Host: "a.test", Path: "/"}
	if err := f.add(t.Context(), []*url.URL{page, page}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := f.claim(t.Context(), hostOf(page)); err != nil || got != page.String() {
			t.Fatalf("%v, %v", got, err)
		}
	}
	for range 2 { // the second is too late
		f.finish(hostOf(page), page.String(), fetched, []*url.URL{page})
	}
	if n, err := f.counts(hostOf(page)); err != nil || n != [4]int64{0, 1} {
		t.Errorf("%v, %v", n, err)
	}
}

// An answer that is later than the client's read time-out is waited for: the claim is not
// repeated, so that no second page is taken.
func TestLateAnswerTakesOnePage(t *testing.T) {
	t.Parallel()
	server, net := redistest.Shared(t), redistest.NewFaults(t)
	rdb := server.Client(t, net.Wrap, func(o *redis.Options) { o.ReadTimeout = 20 * time.Millisecond })
	f := newFrontier(rdb, job{
		Name: server.Prefix(t), Most: 10, TTL: time.Minute, Timeout: time.Hour,
		Robots: map[string]answer{"http://a.test": {Status: 404}},
	})
	var pages []*url.URL
	for _, path := range []string{"/1", "/2", "/3"} {
		pages = append(pages, &url.URL{Scheme: "http", Host: "a.test", Path: path})
	}
	for f.add(t.Context(), pages) != nil && t.Context().Err() == nil { // a busy machine connects later than that
	}
	net.Latency(100 * time.Millisecond)
	got, err := f.claim(t.Context(), "http://a.test")
	if err != nil || got != pages[0].String() {
		t.Errorf("%q, %v", got, err)
	}
	left := server.Client(t).ZCount(t.Context(), f.key("http://a.test"), "1", "1")
	if n, err := left.Result(); err != nil || n != 2 {
		t.Errorf("%d of 3 pages are left, %v", n, err)
	}
}

// Without a page to start from, the program says how it is used.
func TestUsageWithoutPages(t *testing.T) {
	t.Parallel()
	program := exec.Command(os.Args[0])
	program.Env = append(os.Environ(), asProgram+"=1")
	out, err := program.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("%v, want exit code 2", err)
	}
	for _, want := range []string{"usage: crawler [flags] PAGE...", "-demo", "-per-host"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
}
