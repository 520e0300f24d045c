package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/examples/internal/fleet"
	"github.com/berth-go/berth/examples/internal/store"
	"github.com/berth-go/berth/internal/redistest"
)

// asProgram, in the environment, makes this binary the program.
const asProgram = "CRAWLER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	fleet.Main(work) // the worker processes are this binary
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
		Redis: redis.URL(), Name: "test", Connect: s.addr(), PerHost: 2, Total: 7, Depth: 10, Most: 150,
		Timeout: time.Minute, TTL: 15 * time.Second, MaxDelay: time.Minute, Patience: time.Minute,
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
	if n := h.hits["/robots.txt"]; n < 1 || n > most {
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
	if h.want == nil && len(h.hits) != j.Most {
		t.Errorf("%s: %d pages of the trap, want %d", name, len(h.hits), j.Most)
	}
}

func TestCrawlIsPoliteAndComplete(t *testing.T) {
	t.Parallel()
	j, s, _ := newJob(t)
	var out bytes.Buffer
	if err := crawl(t.Context(), &out, j, s.seeds(), 3, true); err != nil {
		t.Fatal(err)
	}
	judge(t, s, j, 1)
	for _, want := range []string{"three.test   3        150", "Crawl-delay 1s", "/robots.txt: status 503", "no answer to /robots.txt"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, &out)
		}
	}
}

func TestCrawlOnTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	j, s, _ := newJob(t)
	j.Redis = ""
	if err := crawl(t.Context(), new(bytes.Buffer), j, s.seeds(), 2, false); err != nil {
		t.Fatal(err)
	}
	judge(t, s, j, 1)
}

func TestCrawlSurvivesAKilledProcess(t *testing.T) {
	t.Parallel()
	j, s, _ := newJob(t)
	j.TTL, j.Timeout = 5*time.Second, 10*time.Second // its pages are free again after twice the time-out
	s.hold = make(chan struct{})
	pages, err := j.start(s.seeds())
	if err != nil {
		t.Fatal(err)
	}
	f := openFrontier(t, j)
	if err := f.add(t.Context(), pages); err != nil {
		t.Fatal(err)
	}
	var workers []*fleet.Worker[struct{}]
	for range 3 {
		w, err := fleet.Start[struct{}](j)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Kill(); w.Wait() })
		workers = append(workers, w)
	}
	<-s.full
	workers[0].Kill()
	if _, err := workers[0].Wait(); err == nil {
		t.Error("the killed worker ended well")
	}
	close(s.hold)
	for _, w := range workers[1:] {
		if _, err := w.Wait(); err != nil {
			t.Error(err)
		}
	}
	judge(t, s, j, 2) // what it was fetching is fetched again
	if n := s.again(); n > j.Total {
		t.Errorf("%d pages were fetched twice, want at most the %d that can be in flight", n, j.Total)
	}
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

func openFrontier(t *testing.T, j job) *frontier {
	t.Helper()
	rdb, err := store.Connect(j.Redis)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rdb.Close() })
	return newFrontier(rdb, j)
}

func TestCrawlIsResumed(t *testing.T) {
	t.Parallel()
	j, s, _ := newJob(t)
	s.hold = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-s.full
		cancel()
		close(s.hold)
	}()
	var out bytes.Buffer
	if err := crawl(ctx, &out, j, s.seeds(), 2, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "run the same command again") {
		t.Fatalf("it was not interrupted:\n%s", &out)
	}
	if err := crawl(t.Context(), &out, j, s.seeds(), 2, false); err != nil {
		t.Fatal(err)
	}
	// Only a robots.txt that was being fetched is fetched again.
	s.hosts["silent.test"].hits["/robots.txt"] = 1
	judge(t, s, j, 1)
}

func TestRedisThatStaysAwayEndsTheCrawl(t *testing.T) {
	t.Parallel()
	j, s, redis := newJob(t)
	j.Patience, j.Timeout = time.Second, 2*time.Second
	s.mark = 50
	s.hold = make(chan struct{})
	done := make(chan error, 1)
	go func() { done <- crawl(t.Context(), new(bytes.Buffer), j, s.seeds(), 2, false) }()
	<-s.full
	redis.Kill()
	close(s.hold)
	if err := <-done; err == nil {
		t.Error("it ended well")
	}
}

func TestSeedsThatAreNone(t *testing.T) {
	t.Parallel()
	j := job{Name: "x", PerHost: 1, Total: 1, Most: 1, Timeout: time.Second}
	for _, seed := range []string{
		"", "x", "://", "ftp://x.test/", "http://", "http:///x", "http://[::1/", "http://%zz/", "http://{x}/", "http://x y/",
		"http://x\x00/", "http://x.test:port/", "javascript:x()", "http://-/", "http://" + strings.Repeat("x", 5000) + "/",
	} {
		if err := crawl(t.Context(), new(bytes.Buffer), j, []string{seed}, 1, false); err == nil || !strings.Contains(err.Error(), "no URL") {
			t.Errorf("%.40q: %v", seed, err)
		}
	}
	if err := crawl(t.Context(), new(bytes.Buffer), j, []string{"http://a.test/", "https://a.test/"}, 1, false); err == nil {
		t.Error("two schemes")
	}
	if err := crawl(t.Context(), new(bytes.Buffer), j, nil, 1, false); err == nil {
		t.Error("no seed")
	}
	if err := crawl(t.Context(), new(bytes.Buffer), job{}, nil, 0, false); err == nil {
		t.Error("no processes")
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	base, _ := clean(nil, "http://User:pw@A.test:80/b/c?d#e")
	for ref, want := range map[string]string{
		"":                       "http://a.test/b/c?d",
		"x#y":                    "http://a.test/b/x",
		"//B.test":               "http://b.test/",
		"../../..":               "http://a.test/",
		"https://b.test:443/%41": "https://b.test/%41",
		"http://[::1]:8080/":     "http://[::1]:8080/",
	} {
		if u, ok := clean(base, ref); !ok || u.String() != want {
			t.Errorf("%q: %v, want %s", ref, u, want)
		}
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string) []byte {
		raw, err := json.Marshal(robotsFile{status, []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for name, tt := range map[string]struct {
		raw    []byte
		allows bool
		atOnce int
		hold   time.Duration
	}{
		"unknown":         {nil, false, 1, 0},
		"no answer":       {answer(0, ""), false, 1, 0},
		"none":            {answer(http.StatusNotFound, "Disallow: /"), true, 2, 0},
		"refused":         {answer(http.StatusForbidden, ""), true, 2, 0},
		"sick":            {answer(http.StatusInternalServerError, "User-agent: *\nAllow: /"), false, 1, 0},
		"empty":           {answer(http.StatusOK, ""), true, 2, 0},
		"binary":          {answer(http.StatusOK, "\x00\xff\xfe\n:::\n\n"), true, 2, 0},
		"disallowed":      {answer(http.StatusOK, "User-agent: *\nDisallow: /"), false, 2, 0},
		"of another":      {answer(http.StatusOK, "User-agent: other\nDisallow: /"), true, 2, 0},
		"ours":            {answer(http.StatusOK, "User-agent: *\nAllow: /\nUser-agent: "+agent+"\nDisallow: /"), false, 2, 0},
		"delay":           {answer(http.StatusOK, "User-agent: *\nCrawl-delay: 2.5"), true, 1, 2500 * time.Millisecond},
		"endless delay":   {answer(http.StatusOK, "User-agent: *\nCrawl-delay: 1e300"), false, 1, 0},
		"long delay":      {answer(http.StatusOK, "User-agent: *\nCrawl-delay: 61"), false, 1, 0},
		"rate":            {answer(http.StatusOK, "User-agent: *\nrequest-rate: 3/1m"), true, 3, time.Minute},
		"rate of nothing": {answer(http.StatusOK, "User-agent: *\nRequest-rate: 0/1"), true, 2, 0},
		"delay and rate":  {answer(http.StatusOK, "User-agent: *\nCrawl-delay: 9\nRequest-rate: 3/1"), true, 1, 9 * time.Second},
	} {
		u, _ := clean(nil, "http://a.test/x")
		r := parseRules(tt.raw, 2, time.Minute)
		if r.allows(u) != tt.allows || r.atOnce != tt.atOnce || r.hold != tt.hold {
			t.Errorf("%s: allowed %v, %d at once for %v: want %v, %d, %v", name, r.allows(u), r.atOnce, r.hold, tt.allows, tt.atOnce, tt.hold)
		}
	}
}

func TestClaimRunsOut(t *testing.T) {
	t.Parallel()
	redis := redistest.Shared(t)
	f := openFrontier(t, job{Redis: redis.URL(), Name: redis.Prefix(t), Most: 10, Timeout: -1}) // it runs out at once
	p := page{"http://a.test/", "a.test", 0}
	if err := f.add(t.Context(), []page{p, p}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, ok, err := f.claim(t.Context(), p.host); !ok || err != nil || got != p {
			t.Fatalf("%v, %v, %v", got, ok, err)
		}
	}
	for _, want := range []bool{true, false} { // the second is too late
		if first, err := f.finish(t.Context(), p, fetched, 1, nil); first != want || err != nil {
			t.Errorf("%v, %v, want %v", first, err, want)
		}
	}
	if n, err := f.counts(t.Context(), "all"); err != nil || n["pending"] != 0 || n[fetched] != 1 {
		t.Errorf("%+v, %v", n, err)
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
