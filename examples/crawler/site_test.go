package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// site is a web of several hosts on one address. It
// counts who asks for what, and how many at once.
type site struct {
	server   *http.Server
	listener net.Listener
	hosts    map[string]*siteHost

	mu   sync.Mutex
	now  int           // guarded by mu; requests being answered, of all hosts
	peak int           // guarded by mu
	all  int           // guarded by mu; requests so far
	mark int           // closes full; set before the first request
	full chan struct{} // closed at the request with the number mark
	hold chan struct{} // for tests, nil or set before the first request: the requests from mark on wait until it is closed
}

// siteHost is one of its hosts.
type siteHost struct {
	robots http.HandlerFunc
	pages  http.HandlerFunc
	limit  int           // requests at once that robots.txt allows
	delay  time.Duration // between requests
	want   []string      // the paths to be fetched, each once; nil: see the test

	mu    sync.Mutex
	now   int            // guarded by mu; requests being answered
	peak  int            // guarded by mu
	hits  map[string]int // guarded by mu; by request URI
	times []time.Time    // guarded by mu; when requests for pages began
}

// startSite serves the hosts on a free port of the loopback interface.
func startSite() *site {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err) // no loopback interface
	}
	return serveSite(listener)
}

func serveSite(listener net.Listener) *site {
	s := &site{listener: listener, hosts: siteHosts(), mark: 200, full: make(chan struct{})}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.server.Serve(s.listener) }() // until close
	return s
}

func (s *site) close() { s.server.Close() }

func (s *site) addr() string { return s.listener.Addr().String() }

// seeds returns a page of each host, from which its others can be reached.
func (s *site) seeds() (seeds []string) {
	for host := range s.hosts {
		seeds = append(seeds, "http://"+host+"/1")
	}
	return seeds
}

// ServeHTTP implements http.Handler: it answers the crawler in the name of the host
// that was asked for, and counts the requests that it is answering.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := s.hosts[r.Host]
	if host == nil || !strings.HasPrefix(r.UserAgent(), agent) {
		http.Error(w, "who are you?", http.StatusForbidden)
		return
	}
	host.enter(r)
	if s.enter() && s.hold != nil {
		<-s.hold
	}
	// A page takes 10 to 30 ms. It counts until then and not until the client has
	// all of it: the client may begin the next request before we see the end.
	wait(r.Context(), time.Duration(10+len(r.RequestURI)*7%21)*time.Millisecond)
	if r.URL.Path == "/robots.txt" {
		host.leave()
		s.leave()
		host.robots(w, r)
		return
	}
	if strings.HasSuffix(r.URL.Path, "7") { // some are slow
		wait(r.Context(), 100*time.Millisecond)
	}
	host.leave()
	s.leave()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	host.pages(w, r)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (h *siteHost) enter(r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now++
	h.peak = max(h.peak, h.now)
	h.hits[r.RequestURI]++
	if r.URL.Path != "/robots.txt" {
		h.times = append(h.times, time.Now())
	}
}

func (h *siteHost) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now--
}

// enter counts a request and tells whether mark is reached.
func (s *site) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now++
	s.peak = max(s.peak, s.now)
	if s.all++; s.all == s.mark {
		close(s.full)
	}
	return s.all >= s.mark
}

func (s *site) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
}

// count returns how many requests there were.
func (s *site) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func siteHosts() map[string]*siteHost {
	hosts := map[string]*siteHost{
		"three.test":  {limit: 3, robots: says("User-agent: *\nRequest-rate: 3/0s\n"), pages: tree(150), want: paths(150)},
		"none.test":   {limit: 2, robots: http.NotFound, pages: rough, want: roughPaths()},
		"slow.test":   {limit: 1, delay: time.Second, robots: says("User-agent: *\nCrawl-delay: 1\nDisallow: /2\n"), pages: tree(7), want: []string{"/1", "/3", "/6", "/7"}},
		"sick.test":   {limit: 1, robots: answers(http.StatusServiceUnavailable), pages: tree(10), want: []string{}},
		"silent.test": {limit: 1, robots: silent, pages: tree(10), want: []string{}},
		"gabby.test":  {limit: 2, robots: endless, pages: tree(60), want: paths(60)},
		"trap.test":   {limit: 2, robots: says("User-agent: *\nDisallow:\n"), pages: trap},
	}
	for _, h := range hosts {
		h.hits = map[string]int{}
	}
	return hosts
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

func answers(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// silent never answers.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// endless sends comments for ever.
func endless(w http.ResponseWriter, r *http.Request) {
	fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
	for r.Context().Err() == nil {
		if _, err := fmt.Fprintf(w, "# %s\n", strings.Repeat("and so on ", 100)); err != nil {
			return
		}
	}
}

// tree has pages /1 to /n; page i links to 2i, 2i+1, itself and what is no page.
func tree(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var i int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &i); err != nil || i < 1 || i > n {
			http.NotFound(w, r)
			return
		}
		for _, next := range []int{i, 2 * i, 2*i + 1} {
			if next <= n {
				fmt.Fprintf(w, "<p><a href='%d#part'>page %d</a>", next, next)
			}
		}
		fmt.Fprint(w, `<a href="http://[::1">x</a><a href="http://%zz/">x</a><a href="javascript:x()">x</a>
			<a href="mailto:x@x.test">x</a><a href="http://{x}.test/">x</a><a href="http://elsewhere.test/1">x</a><a>x</a>`)
	}
}

func paths(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("/%d", i+1))
	}
	return all
}

// rough is a tree with redirects and broken pages below its root.
func rough(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/moved":
		http.Redirect(w, r, "/50", http.StatusMovedPermanently)
	case "/round":
		http.Redirect(w, r, "/round", http.StatusFound)
	case "/broken":
		http.Error(w, "ours", http.StatusInternalServerError)
	case "/cut":
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "<a href='/1'>x</a>")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "/1":
		fmt.Fprint(w, "<a href=/moved>x</a><a href=/round>x</a><a href=/broken>x</a><a href=/cut>x</a><a href=/missing>x</a>")
		fallthrough
	default:
		tree(100)(w, r)
	}
}

func roughPaths() []string {
	return append(paths(100), "/moved", "/round", "/broken", "/cut", "/missing")
}

// trap makes up two new links for every page.
func trap(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "<a href='%s/a'>on</a> <a href='%s/b'>and on</a>", r.URL.Path, r.URL.Path)
}
