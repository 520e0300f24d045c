package berthweb_test

import (
	"context"
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/berthweb"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// web is a store with pages about it.
type web struct {
	*testenv.Env
	pages   http.Handler
	sampler *berthwatch.Sampler
	log     strings.Builder
}

// operator may change things.
func operator(*http.Request) (string, bool) { return "ann@192.0.2.1", true }

// open serves pages about a store. Those who ask are operators, unless change says otherwise.
func open(e *testenv.Env, in *testenv.Peer, change func(*berthweb.Options)) *web {
	e.Helper()
	w := &web{Env: e}
	o := berthweb.Options{User: operator, Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Doctor: func(context.Context) ([]berthweb.Finding, error) {
		return []berthweb.Finding{{Check: "version", Status: "OK", Found: "redis 7"}, {Check: "memory", Status: "WARN", Found: "<full>", Advice: "Buy more."}}, nil
	}}
	if change != nil {
		change(&o)
	}
	inspector := e.Inspector.Inspector
	if in != nil {
		inspector = in.Inspector()
	}
	w.sampler = berthwatch.New(inspector, berthwatch.Options{})
	pages, err := berthweb.New(w.sampler, inspector, o)
	e.Must(err)
	w.pages = pages
	ctx, stop := context.WithCancel(e.Ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.sampler.Run(ctx)
	}()
	e.Cleanup(func() {
		stop()
		<-done
	})
	return w
}

// request makes a request as this machine's browser would.
func request(method, target, body string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "localhost:7357"
	r.RemoteAddr = "127.0.0.1:40000"
	return r
}

// do has a request answered.
func (w *web) do(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.pages.ServeHTTP(rec, r)
	return rec
}

// prompt has a request answered by a Redis that has the time to. A real one may be too slow for
// a page's 2 seconds.
func (w *web) prompt(ask func() *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	w.Helper()
	for {
		rec := ask()
		if w.Exact || rec.Code != http.StatusServiceUnavailable || strings.Contains(rec.Body.String(), "refused") {
			return rec
		}
		w.Pass(w.Tick())
	}
}

// get asks for a page, which must be there.
func (w *web) get(target string) string {
	w.Helper()
	rec := w.prompt(func() *httptest.ResponseRecorder { return w.do(request(http.MethodGet, target, "")) })
	if rec.Code != http.StatusOK {
		w.Fatalf("%s: status %d: %s", target, rec.Code, rec.Body)
	}
	return rec.Body.String()
}

// until asks for a page until it has a text: on a slow machine a picture comes later.
func (w *web) until(target, part string) {
	w.Helper()
	for {
		rec := w.do(request(http.MethodGet, target, ""))
		if strings.Contains(rec.Body.String(), part) {
			return
		}
		select {
		case <-time.After(w.Tick()):
		case <-w.Ctx.Done():
			w.Fatalf("%s: status %d, without %q: %s", target, rec.Code, part, rec.Body)
		}
	}
}

// post sends a form.
func (w *web) post(values url.Values) *httptest.ResponseRecorder {
	r := request(http.MethodPost, "/act", values.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return w.do(r)
}

// order sends JSON.
func (w *web) order(verb, body string) *httptest.ResponseRecorder {
	r := request(http.MethodPost, "/api/v1/"+verb, body)
	r.Header.Set("Content-Type", "application/json")
	return w.do(r)
}

// json asks for JSON, which must be there.
func (w *web) json(target string, v any) {
	w.Helper()
	if err := json.Unmarshal([]byte(w.get(target)), v); err != nil {
		w.Fatalf("%s: %v", target, err)
	}
}

func (w *web) wants(text string, parts ...string) {
	w.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			w.Errorf("%q is not in:\n%s", p, text)
		}
	}
}

func (w *web) lacks(text string, parts ...string) {
	w.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			w.Errorf("%q is in:\n%s", p, text)
		}
	}
}

var (
	tag       = regexp.MustCompile(`<[^>]*>`)
	attribute = regexp.MustCompile(`\s([a-zA-Z-]+)="([^"]*)"`)
)

// links are the targets of all links, forms, scripts, styles and images of a page, but for our docs.
func links(text string) (all []string) {
	for _, t := range tag.FindAllString(text, -1) {
		for _, a := range attribute.FindAllStringSubmatch(t, -1) {
			if strings.HasPrefix(a[2], "https://github.com/berth-go/berth/blob/main/docs/") && strings.Contains(t, `rel="noreferrer"`) {
				continue
			}
			if a[1] == "href" || a[1] == "src" || a[1] == "action" && !strings.Contains(t, `method="post"`) {
				all = append(all, html.UnescapeString(a[2]))
			}
		}
	}
	return all
}

// body reads an answer to its end.
func body(t testing.TB, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
