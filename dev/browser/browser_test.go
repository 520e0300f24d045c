package browser

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/berthweb"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

var shots = flag.String("shots", "", "write a picture of each page into this `DIRECTORY`")

// timeout bounds a wait for something that is bound to happen: for a test that hangs, not for
// one that is slow.
const timeout = 3 * time.Minute

func TestMain(m *testing.M) { testenv.Main(m) }

// browser starts a browser of its own for a test. That it does not start is told apart from
// what the pages do wrong.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := os.Getenv("BERTH_CHROMIUM")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	if path == "" {
		t.Fatal("there is no browser: apt-get install chromium, or set BERTH_CHROMIUM")
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(timeout)}
	for _, name := range []string{
		"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-component-update", "disable-sync",
		"hide-scrollbars", "disable-dev-shm-usage",
	} {
		options = append(options, chromedp.Flag(name, true))
	}
	bounded, cancel := context.WithTimeout(context.Background(), 5*timeout)
	t.Cleanup(cancel)
	allocator, end := chromedp.NewExecAllocator(bounded, options...)
	t.Cleanup(end)
	ctx, closeAll := chromedp.NewContext(allocator)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); closeAll() })
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("the browser %s did not start; the pages were not tested: %v", path, err)
	}
	return ctx
}

// tab is a tab of a browser. What the pages write to its console as an error, violations of the
// policy among it, fails the test.
type tab struct {
	*testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string
	expect string // a part of errors that are meant
}

func newTab(in context.Context, t *testing.T) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(in)
	t.Cleanup(end)
	b := &tab{T: t, ctx: ctx}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.silent)
	return b
}

func (b *tab) listen(ev any) {
	text := ""
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		text = ev.ExceptionDetails.Text
		if ev.ExceptionDetails.Exception != nil {
			text += " " + ev.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if ev.Type == runtime.ConsoleAPICalledTypeError {
			for _, a := range ev.Args {
				text += fmt.Sprint(a.Value, a.Description)
			}
		}
	case *log.EventEntryAdded:
		if ev.Entry.Level == log.EntryLevelError || ev.Entry.Level == log.EntryLevelWarning {
			text = ev.Entry.Text + " " + ev.Entry.URL
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if text != "" {
		b.errors = append(b.errors, text)
	}
}

// silent fails if the console has an error that is not meant.
func (b *tab) silent() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.errors {
		if b.expect == "" || !strings.Contains(text, b.expect) {
			b.Errorf("the console says: %s", text)
		}
	}
	b.errors = nil
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// call is an action of the browser's own protocol.
func call[P any](c cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, c, params)
		return chromedp.Void{}, err
	}
}

// eval runs a script, and returns its value.
func eval[T any](b *tab, script string) T {
	b.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return v
}

// The page may put another element in the place of the one that was found, so that is found and used
// in one step.

// set writes a value into a field.
func (b *tab) set(selector, value string) {
	b.Helper()
	eval[bool](b, fmt.Sprintf("document.querySelector(%q).value = %q, true", selector, value))
}

// shown waits until an element is.
func (b *tab) shown(selector string) {
	b.Helper()
	b.until(selector+" is shown", fmt.Sprintf("document.querySelector(%q)?.getClientRects().length > 0", selector))
}

// focus gives an element the focus, as soon as it is shown.
func (b *tab) focus(selector string) {
	b.Helper()
	b.shown(selector)
	eval[bool](b, fmt.Sprintf("document.querySelector(%q).focus(), true", selector))
}

// click clicks into the middle of an element, as soon as it is shown.
func (b *tab) click(selector string) {
	b.Helper()
	b.shown(selector)
	b.mouse(input.DispatchMouseEventTypeMousePressed, selector)
	b.mouse(input.DispatchMouseEventTypeMouseReleased, selector)
}

// mouse presses the left button in the middle of an element, or lets it go there.
func (b *tab) mouse(what input.DispatchMouseEventType, selector string) {
	b.Helper()
	at := eval[[]float64](b, fmt.Sprintf(`((e) => {
		e.scrollIntoView({ block: "nearest", behavior: "instant" });
		const { x, y, width, height } = e.getBoundingClientRect();
		return [x + width / 2, y + height / 2];
	})(document.querySelector(%q))`, selector))
	b.run(call(input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: what, X: at[0], Y: at[1], Button: input.MouseButtonLeft, ClickCount: 1}))
}

// until waits until a script is true. While a page gives way to another, it is not.
func (b *tab) until(what, script string) {
	b.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(timeout); ; {
		if ok, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](script)); ok && err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			b.Fatalf("%s: it is not so; the page says:\n%s", what, eval[string](b, "document.body.innerText"))
		}
	}
}

// says waits until the page has a text.
func (b *tab) says(text string) {
	b.Helper()
	b.until(fmt.Sprintf("%q", text), fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// shot takes a picture, if pictures are wanted.
func (b *tab) shot(name string) {
	b.Helper()
	if *shots == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o600); err != nil {
		b.Fatal(err)
	}
}

// served is a store with pages about it on a port of this machine.
type served struct {
	*testenv.Env
	url     string
	sampler *berthwatch.Sampler

	mu     sync.Mutex
	counts map[string]int // of requests, by their filter
	asked  chan struct{}  // closed at the next request
}

// count is how many requests there were with a filter.
func (s *served) count(filter string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[filter]
}

// asks waits for n more requests with a filter.
func (s *served) asks(filter string, n int) {
	s.Helper()
	for end, deadline := s.count(filter)+n, time.After(timeout); ; {
		s.mu.Lock()
		count, asked := s.counts[filter], s.asked
		s.mu.Unlock()
		if count >= end {
			return
		}
		select {
		case <-asked:
		case <-deadline:
			s.Fatalf("%d requests with the filter %q, want %d", count, filter, end)
		}
	}
}

// serve serves pages about what in sees, for an operator.
func serve(e *testenv.Env, in *berthadmin.Inspector) *served {
	e.Helper()
	sampler := berthwatch.New(in, berthwatch.Options{})
	s := &served{Env: e, sampler: sampler, counts: map[string]int{}, asked: make(chan struct{})}
	pages, err := berthweb.New(sampler, in, berthweb.Options{
		User:    func(*http.Request) (string, bool) { return "ann@ops-1", true },
		Version: "berth (test)",
		Doctor: func(context.Context) ([]berthweb.Finding, error) {
			return []berthweb.Finding{
				{Check: "version", Status: "OK", Found: "redis 7.0.15"},
				{Check: "persistence", Status: "WARN", Found: "the append-only file is off", Advice: "Set appendonly yes."},
			}, nil
		},
	})
	e.Must(err)
	ctx, stop := context.WithCancel(e.Ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		sampler.Run(ctx)
	}()
	e.Cleanup(func() {
		stop()
		<-done
	})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.counts[r.URL.Query().Get("q")]++
		close(s.asked)
		s.asked = make(chan struct{})
		s.mu.Unlock()
		s.answer(pages, w, r)
	}))
	e.Cleanup(srv.Close)
	s.url = srv.URL + "/"
	return s
}

// answer has the pages answer, and once more where they say that Redis had no time to: on a slow
// machine its 2 seconds may pass. A browser would note that as an error.
func (s *served) answer(pages http.Handler, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the browser has gone
	}
	var rec *httptest.ResponseRecorder
	for range 20 {
		rec = httptest.NewRecorder()
		again := r.Clone(r.Context())
		again.Body = io.NopCloser(bytes.NewReader(body))
		if pages.ServeHTTP(rec, again); rec.Code != http.StatusServiceUnavailable || r.Context().Err() != nil {
			break
		}
	}
	maps.Copy(w.Header(), rec.Header())
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

// knows waits until a semaphore was read in full, for pages that do not look again.
func (s *served) knows(name string) {
	s.Helper()
	for s.sampler.Detail(name).State == nil {
		s.sampler.Wait(s.Ctx, name)
		s.Pass(s.Tick())
	}
}
