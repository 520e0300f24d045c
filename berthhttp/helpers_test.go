package berthhttp_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// roundTripper is a base transport in a line.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is a response with body, to which reading gives r's cancellation as the
// real transport does.
func answer(r *http.Request, body io.Reader) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: &cancelled{Reader: body, ctx: r.Context()}, Request: r}
}

type cancelled struct {
	io.Reader

	ctx    context.Context
	closed bool
}

func (c *cancelled) Read(p []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.Reader.Read(p)
}

func (c *cancelled) Close() error {
	c.closed = true
	return nil
}

func newTransport(t *testing.T, c *berth.Client, limit int, opts ...berthhttp.Option) *berthhttp.Transport {
	t.Helper()
	opts = append([]berthhttp.Option{berthhttp.Logger(slog.New(slog.DiscardHandler))}, opts...)
	tr, err := berthhttp.NewTransport(c, "api", limit, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func newHandler(t *testing.T, c *berth.Client, limit int, next http.Handler, opts ...berthhttp.Option) *berthhttp.Handler {
	t.Helper()
	opts = append([]berthhttp.Option{berthhttp.Logger(slog.New(slog.DiscardHandler))}, opts...)
	h, err := berthhttp.NewHandler(c, "work", limit, next, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(ctx context.Context, t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// state returns what the store knows of a semaphore; idle, all is 0. On a slow machine it asks
// again: the Inspector waits for 2 seconds.
func state(t *testing.T, c *berth.Client, name string) berthadmin.Summary {
	t.Helper()
	s, err := berthadmin.Of(c).Show(context.Background(), name)
	for range 20 {
		if !errors.Is(err, berth.ErrUnreachable) {
			break
		}
		s, err = berthadmin.Of(c).Show(context.Background(), name)
	}
	if errors.Is(err, berthadmin.ErrNotFound) {
		return berthadmin.Summary{}
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.Summary
}

// want checks how many permits are out and how many requests wait, once nothing
// in the bubble moves any more.
func want(t *testing.T, c *berth.Client, name string, inUse, waiting int) {
	t.Helper()
	synctest.Wait()
	if s := state(t, c, name); s.InUse != inUse || s.Waiting != waiting {
		t.Fatalf("%s: %d in use and %d waiting, want %d and %d", name, s.InUse, s.Waiting, inUse, waiting)
	}
}

// bubble runs f with a store in a synctest bubble.
func bubble(t *testing.T, f func(t *testing.T, store *berthtest.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, berthtest.New(t)) })
}

// logs is a log to look at, in a bubble.
type logs struct{ testenv.Log }

func (l *logs) option() berthhttp.Option {
	return berthhttp.Logger(slog.New(slog.NewTextHandler(l, nil)))
}

// requests is how many requests without a permit it tells of.
func (l *logs) requests() (n int) {
	for _, m := range regexp.MustCompile(`requests=(\d+)`).FindAllStringSubmatch(l.String(), -1) {
		i, _ := strconv.Atoi(m[1])
		n += i
	}
	return n
}

// gauge counts what runs at once.
type gauge struct {
	mu             sync.Mutex
	now, peak, all int
}

func (g *gauge) enter() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now++
	g.all++
	g.peak = max(g.peak, g.now)
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now--
}

func (g *gauge) read() (now, peak, all int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now, g.peak, g.all
}

// evict takes the only lease of a semaphore away at once.
func evict(t *testing.T, c *berth.Client, name string) {
	t.Helper()
	in := berthadmin.Of(c)
	st, err := in.Show(context.Background(), name)
	if err != nil || len(st.Leases) != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
	if err := in.ForceEvict(context.Background(), name, st.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
}
