package berthweb_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/berthweb"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestBelowAnyPath, with a proxy that strips it, one that does not, and as a part of a program:
// every link of every page leads to a page, forms and redirects stay below.
func TestBelowAnyPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, base string
		front      func(target *url.URL, pages http.Handler) http.Handler
	}{
		{"a proxy strips it", "", func(target *url.URL, _ http.Handler) http.Handler {
			return http.StripPrefix("/x/y", httputil.NewSingleHostReverseProxy(target))
		}},
		{"a proxy does not", "/x/y", func(target *url.URL, _ http.Handler) http.Handler { return httputil.NewSingleHostReverseProxy(target) }},
		{"a program", "", func(_ *url.URL, pages http.Handler) http.Handler { return http.StripPrefix("/x/y", pages) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := testenv.Shared(t)
			w := open(e, nil, func(o *berthweb.Options) { o.BasePath = c.base })
			e.Hold(e.Peer().Named("api/v1 <x>", 3))
			e.Must(e.Inspector.Because("ann", "").Pin(e.Ctx, "other", 2))
			back := httptest.NewServer(w.pages)
			t.Cleanup(back.Close)
			target, err := url.Parse(back.URL)
			e.Must(err)
			mux := http.NewServeMux()
			mux.Handle("/x/y/", c.front(target, w.pages))
			front := httptest.NewServer(mux)
			t.Cleanup(front.Close)
			w.until(c.base+"/", "s?name=other")
			w.until(c.base+"/s?name=other", "0 of 2")
			w.until(c.base+"/s?name=api/v1+%3Cx%3E", "1 of 3")
			crawl(e, front)

			resp, text := prompt(e, func() (*http.Response, error) { //nolint:bodyclose // prompt closes it
				return front.Client().PostForm(front.URL+"/x/y/act", url.Values{"verb": {"pause"}, "name": {"other"}, "answer": {"yes"}})
			})
			if resp.StatusCode != http.StatusOK || resp.Request.URL.Path != "/x/y/s" || !strings.Contains(text, "It is paused.") {
				t.Errorf("after a form: %s: %d %s", resp.Request.URL, resp.StatusCode, text)
			}
			w.until(c.base+"/s?name=other", "Paused by ann")
			if c.base == "" {
				return
			}
			for path, want := range map[string]int{"/x/y": 308, "/x/yz/": 404, "/": 404, "/x/": 404} {
				rec := w.do(request(http.MethodGet, path, ""))
				if rec.Code != want || want == 308 && rec.Header().Get("Location") != "y/" {
					t.Errorf("%s: status %d, to %q", path, rec.Code, rec.Header().Get("Location"))
				}
			}
		})
	}
}

// prompt makes a request until Redis has the time to answer, and reads the answer.
func prompt(e *testenv.Env, ask func() (*http.Response, error)) (*http.Response, string) {
	e.Helper()
	for {
		resp, err := ask()
		e.Must(err)
		if text := body(e, resp); resp.StatusCode != http.StatusServiceUnavailable {
			return resp, text
		}
		e.Pass(e.Tick())
	}
}

// crawl fetches all that can be reached from the list.
func crawl(e *testenv.Env, front *httptest.Server) {
	t := e.T
	t.Helper()
	start, err := url.Parse(front.URL + "/x/y/")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{start.String(): true}
	for queue := []*url.URL{start}; len(queue) > 0; {
		at := queue[0]
		queue = queue[1:]
		resp, text := prompt(e, func() (*http.Response, error) { return front.Client().Get(at.String()) }) //nolint:bodyclose // prompt closes it
		if resp.StatusCode != http.StatusOK && at.Path != "/x/y/act" || !strings.HasPrefix(resp.Request.URL.Path, "/x/y/") {
			t.Errorf("%s: status %d, at %s", at, resp.StatusCode, resp.Request.URL)
		}
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			continue
		}
		for _, link := range links(text) {
			to, err := at.Parse(link)
			if err != nil {
				t.Fatalf("%s links to %q: %v", at, link, err)
			}
			to.Fragment = ""
			if !strings.HasPrefix(to.String(), front.URL+"/x/y/") {
				t.Errorf("%s links to %s", at, to)
			} else if !seen[to.String()] && len(seen) < 300 {
				seen[to.String()] = true
				queue = append(queue, to)
			}
		}
	}
	for _, path := range []string{"static/app.js", "static/style.css", "static/icon.svg", "audit", "doctor", "about", "api/v1/semaphores", "s?name=api%2Fv1+%3Cx%3E", "readyz"} {
		if !seen[front.URL+"/x/y/"+path] {
			t.Errorf("%s was not reached", path)
		}
	}
}

// TestWrongPasswordIsNoMissingRight: what to mend is in the URL, and Redis is not silent.
func TestWrongPasswordIsNoMissingRight(t *testing.T) {
	testenv.OwnServer(t, []string{"requirepass hunter2"}, func(e *testenv.Env) {
		for password, word := range map[string]string{"hunter3": "WRONGPASS", "": "NOAUTH"} {
			e.Options.Password = password
			w := open(e, e.Peer(), nil)
			w.until("/api/v1/semaphores", word)
			w.until("/api/v1/semaphores", "Check user and password")
			w.until("/readyz", "or refuses")
		}
	})
}

// TestReadOnlyNeedsNoRightToWrite: the pages work for a user of Redis who has no right to
// change anything.
func TestReadOnlyNeedsNoRightToWrite(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		t := e.T
		rights := append([]string{"on", ">secret"}, redistest.RightsOf(t, "..", "viewer")...)
		e.Must(e.Redis.ACLSetUser(e.Ctx, "viewer", rights...).Err())
		e.Hold(e.Peer().Named("api", 3))
		e.Must(e.Inspector.Because("ann", "").Pause(e.Ctx, "api"))
		e.Options.Username, e.Options.Password = "viewer", "secret"
		w := open(e, e.Peer(), nil)
		w.until("/", ">api<")
		w.until("/s?name=api", "1 of 3")
		w.wants(w.get("/"), "1/3", "paused")
		w.get("/about")
		w.get("/api/v1/semaphores")
		w.until("/readyz", "ok") // on a slow machine Redis may not answer within its second
		ask := func(target string) func() *httptest.ResponseRecorder {
			return func() *httptest.ResponseRecorder { return w.do(request(http.MethodGet, target, "")) }
		}
		if rec := w.prompt(ask("/audit")); rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "NOPERM") {
			t.Errorf("the audit: %d %s", rec.Code, rec.Body)
		}
		resume := func() *httptest.ResponseRecorder { return w.order("resume", `{"name":"api"}`) }
		if rec := w.prompt(resume); rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), `"code": "refused"`) {
			t.Errorf("a change: %d %s", rec.Code, rec.Body)
		}
		e.Must(e.Redis.Do(e.Ctx, "ACL", "SETUSER", "viewer", "-scan").Err())
		w = open(e, e.Peer(), nil)
		w.until("/", "Names cannot be searched for: redis refused")
		if rec := w.prompt(ask("/api/v1/semaphores")); rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), `"code": "refused"`) {
			t.Errorf("a list without names: %d %s", rec.Code, rec.Body)
		}
	})
}

// TestTenThousand: a page is a hundred rows, however many there are, and making it asks Redis
// for nothing.
func TestTenThousand(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		t := e.T
		pinAll(t, e.Inspector.Pin, 10_000)
		p := e.Peer()
		w := open(e, p, nil)
		for !w.sampler.Look().Whole {
			e.Pass(e.Tick())
		}
		text := w.get("/?sort=name")
		w.wants(text, "1 to 100 of 10000 semaphores")
		if rows, links := strings.Count(text, "<tr>"), len(links(text)); rows != 101 || links > 150 {
			t.Errorf("%d rows, %d links", rows, links)
		}
		if len(text) > 150_000 {
			t.Errorf("%d bytes", len(text))
		}
		var found struct{ Total int }
		w.json("/api/v1/semaphores?q=n99*", &found)
		if found.Total != 111 {
			t.Errorf("%d found", found.Total)
		}
	})
}

func pinAll(t testing.TB, pin func(context.Context, string, int) error, n int) {
	t.Helper()
	var wg sync.WaitGroup
	const workers = 100 // who travel together
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < n; i += workers {
				if err := pin(t.Context(), fmt.Sprint("n", i), 5); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkFirstPage is the list of 10,000 semaphores, once they were sampled.
func BenchmarkFirstPage(b *testing.B) {
	e := testenv.NewBench(b)
	in := e.Inspect(b)
	pinAll(b, in.Pin, 10_000)
	sampler := berthwatch.New(in, berthwatch.Options{})
	pages, err := berthweb.New(sampler, in, berthweb.Options{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	go sampler.Run(ctx)
	for !sampler.Look().Whole {
		runtime.Gosched()
	}
	r := request(http.MethodGet, "/", "")
	for b.Loop() {
		rec := httptest.NewRecorder()
		if pages.ServeHTTP(rec, r); rec.Code != http.StatusOK {
			b.Fatal(rec.Code)
		}
	}
}

// TestBodyThatIsLateIsATimeout, which a program may try again, and no bad request.
func TestBodyThatIsLateIsATimeout(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		w := open(e, nil, nil)
		r := request(http.MethodPost, "/api/v1/pause", "")
		r.Header.Set("Content-Type", "application/json")
		r.Body = io.NopCloser(iotest.ErrReader(&net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}))
		if rec := w.do(r); rec.Code != http.StatusRequestTimeout {
			e.Errorf("status %d: %s", rec.Code, rec.Body)
		}
	})
}
