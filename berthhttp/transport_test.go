//nolint:bodyclose // what happens to bodies that are not closed, and to requests without one, is the subject
package berthhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
)

const api = "http://api.test/things"

// permitted makes a request through base, which must have the only permit while
// it runs.
func permitted(ctx context.Context, t *testing.T, client *berth.Client, base roundTripper) (*http.Response, error) {
	t.Helper()
	during := -1
	tr := newTransport(t, client, 1, berthhttp.Base(roundTripper(func(r *http.Request) (*http.Response, error) {
		during = state(t, client, "api/api.test").InUse
		return base(r)
	})))
	req := get(ctx, t, api)
	resp, err := tr.RoundTrip(req)
	if during != 1 {
		t.Errorf("%d permits were out while the request ran", during)
	}
	if resp != nil && resp.Request.URL != req.URL {
		t.Error("the response is not of the request")
	}
	return resp, err
}

func TestPermitComesBackWithTheBody(t *testing.T) {
	text := func(r *http.Request) (*http.Response, error) { return answer(r, strings.NewReader("hello")), nil }
	for name, c := range map[string]struct {
		base roundTripper
		use  func(t *testing.T, resp *http.Response, cancel func())
	}{
		"closed":       {base: text, use: func(_ *testing.T, r *http.Response, _ func()) { r.Body.Close() }},
		"closed twice": {base: text, use: func(_ *testing.T, r *http.Response, _ func()) { r.Body.Close(); r.Body.Close() }},
		"read": {base: text, use: func(t *testing.T, r *http.Response, _ func()) {
			if b, err := io.ReadAll(r.Body); err != nil || string(b) != "hello" {
				t.Errorf("read %q, %v", b, err)
			}
		}},
		"closed early": {base: text, use: func(_ *testing.T, r *http.Response, _ func()) {
			_, _ = r.Body.Read(make([]byte, 1))
			r.Body.Close()
		}},
		"context ended": {base: text, use: func(_ *testing.T, _ *http.Response, cancel func()) { cancel() }},
		"broken body": {base: func(r *http.Request) (*http.Response, error) {
			return answer(r, io.MultiReader(strings.NewReader("x"), broken{})), nil
		}, use: func(t *testing.T, r *http.Response, _ func()) {
			if _, err := io.ReadAll(r.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("reading a broken body: %v", err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				client := store.Client()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				resp, err := permitted(ctx, t, client, c.base)
				if err != nil || resp == nil {
					t.Fatalf("RoundTrip returned %v, %v", resp, err)
				}
				want(t, client, "api/api.test", 1, 0)
				c.use(t, resp, cancel)
				want(t, client, "api/api.test", 0, 0)
			})
		})
	}
}

func TestPermitComesBackWithoutABody(t *testing.T) {
	for name, resp := range map[string]http.Response{
		"no body":  {StatusCode: http.StatusNoContent, Body: http.NoBody},
		"nil body": {StatusCode: http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				client := store.Client()
				got, err := permitted(t.Context(), t, client, func(*http.Request) (*http.Response, error) { return &resp, nil })
				if err != nil || got == nil {
					t.Fatalf("RoundTrip returned %v, %v", got, err)
				}
				want(t, client, "api/api.test", 0, 0)
			})
		})
	}
}

func TestPermitComesBackFromACallThatFails(t *testing.T) {
	for name, base := range map[string]roundTripper{
		"failed": func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"cancelled": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"no response": func(*http.Request) (*http.Response, error) {
			return nil, nil //nolint:nilnil // a broken transport
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				client := store.Client()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Minute, cancel)
				resp, err := permitted(ctx, t, client, base)
				if err == nil || resp != nil {
					t.Fatalf("RoundTrip returned %v, %v", resp, err)
				}
				want(t, client, "api/api.test", 0, 0)
			})
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestPanicGivesThePermitBack(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		tr := newTransport(t, client, 1, berthhttp.Base(roundTripper(func(*http.Request) (*http.Response, error) { panic("base") })))
		func() {
			defer func() {
				if recover() != "base" {
					t.Error("the panic did not pass")
				}
			}()
			_, _ = tr.RoundTrip(get(t.Context(), t, api))
		}()
		want(t, client, "api/api.test", 0, 0)
	})
}

// holdOne takes the only permit of api.test until the returned function is called.
func holdOne(t *testing.T, tr *berthhttp.Transport) func() {
	t.Helper()
	resp, err := tr.RoundTrip(get(t.Context(), t, api))
	if err != nil {
		t.Fatal(err)
	}
	return func() { resp.Body.Close() }
}

var endless = berthhttp.Base(roundTripper(func(r *http.Request) (*http.Response, error) {
	return answer(r, strings.NewReader(strings.Repeat("x", 1<<10))), nil
}))

func TestRequestsWaitInLine(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		tr := newTransport(t, client, 1, endless)
		free := holdOne(t, tr)
		done := make(chan func())
		go func() { done <- holdOne(t, tr) }()
		want(t, client, "api/api.test", 1, 1)
		<-time.After(time.Hour / 10) // below MaxHold
		free()
		(<-done)()
		want(t, client, "api/api.test", 0, 0)
	})
}

func TestWaitEnds(t *testing.T) {
	for name, c := range map[string]struct {
		opts    []berthhttp.Option
		timeout time.Duration
		want    error
		took    time.Duration
		late    bool
	}{
		"deadline":   {timeout: time.Minute, want: context.DeadlineExceeded, took: time.Minute, late: true},
		"max wait":   {opts: []berthhttp.Option{berthhttp.MaxWait(time.Second)}, want: berthhttp.ErrMaxWait, took: time.Second, late: true},
		"no wait":    {opts: []berthhttp.Option{berthhttp.MaxWait(0)}, want: berth.ErrBusy},
		"queue full": {opts: []berthhttp.Option{berthhttp.LeaseOptions(berth.QueueLimit(0))}, want: berth.ErrQueueFull},
		"too heavy": {opts: []berthhttp.Option{berthhttp.PerRequest(func(*http.Request) []berth.AcquireOption {
			return []berth.AcquireOption{berth.Weight(2)}
		})}, want: berth.ErrTooHeavy},
		"bad option": {opts: []berthhttp.Option{berthhttp.PerRequest(func(*http.Request) []berth.AcquireOption {
			return []berth.AcquireOption{berth.Label("\x1b[2J")}
		})}, want: berth.ErrInvalid},
		"bad limit": {opts: []berthhttp.Option{berthhttp.Limits(func(string) int { return -1 })}, want: berth.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				client := store.Client()
				defer holdOne(t, newTransport(t, client, 1, endless))()
				sent := 0
				opts := append(c.opts, berthhttp.Base(roundTripper(func(r *http.Request) (*http.Response, error) {
					sent++
					return answer(r, strings.NewReader("")), nil
				})))
				tr := newTransport(t, client, 1, opts...)
				ctx, cancel := context.WithCancel(t.Context())
				if c.timeout > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), c.timeout)
				}
				defer cancel()
				body := &cancelled{Reader: strings.NewReader("upload"), ctx: ctx}
				req := get(ctx, t, api)
				req.Body = body
				began := time.Now()
				_, err := tr.RoundTrip(req)
				var refused *berthhttp.RefusedError
				if !errors.As(err, &refused) || !errors.Is(err, c.want) || errors.Is(err, context.DeadlineExceeded) != c.late {
					t.Fatalf("RoundTrip returned %v, want a *RefusedError of %v", err, c.want)
				}
				if took := time.Since(began); took != c.took || refused.Waited != c.took {
					t.Errorf("it took %v (says %v), want %v", took, refused.Waited, c.took)
				}
				if refused.Name != "api/api.test" || refused.Timeout() != c.late || refused.Status != 0 && c.late {
					t.Errorf("the error has name %q, Timeout %v", refused.Name, refused.Timeout())
				}
				if !body.closed || sent != 0 {
					t.Errorf("request body closed: %v; sent %d times", body.closed, sent)
				}
				want(t, client, "api/api.test", 1, 0)
			})
		})
	}
}

// TestQueueFullThroughClient: errors.As must reach through http.Client.
func TestQueueFullThroughClient(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		tr := newTransport(t, store.Client(), 1, endless, berthhttp.LeaseOptions(berth.QueueLimit(0)))
		defer holdOne(t, tr)()
		_, err := (&http.Client{Transport: tr}).Do(get(t.Context(), t, api))
		var busy *berth.BusyError
		if !errors.As(err, &busy) || !busy.QueueFull || busy.Limit != 1 {
			t.Errorf("the client returned %v", err)
		}
	})
}

func TestLostLeaseCancelsTheCall(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		tr := newTransport(t, client, 1, berthhttp.Base(roundTripper(func(r *http.Request) (*http.Response, error) {
			lease, ok := berth.FromContext(r.Context())
			if !ok {
				t.Error("the request carries no lease")
			}
			store.Lose(lease)
			<-r.Context().Done()
			if cause := context.Cause(r.Context()); !errors.Is(cause, berth.ErrLost) {
				t.Errorf("the request's context has cause %v", cause)
			}
			return nil, r.Context().Err() // which says nothing of the loss
		})))
		if _, err := tr.RoundTrip(get(t.Context(), t, api)); !errors.Is(err, berth.ErrLost) || !errors.Is(err, context.Canceled) {
			t.Errorf("RoundTrip returned %v, want ErrLost", err)
		}
		want(t, client, "api/api.test", 0, 0)
	})
}

func TestLostLeaseEndsTheBody(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, log := store.Client(), new(logs)
		var lease *berth.Lease
		tr := newTransport(t, client, 1, berthhttp.Base(roundTripper(func(r *http.Request) (*http.Response, error) {
			lease, _ = berth.FromContext(r.Context())
			return answer(r, strings.NewReader("hello")), nil
		})), log.option())
		resp, err := tr.RoundTrip(get(t.Context(), t, api))
		if err != nil {
			t.Fatal(err)
		}
		store.Evict(lease)
		synctest.Wait()
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, berth.ErrEvicted) {
			t.Errorf("reading returned %v, want ErrEvicted", err)
		}
		resp.Body.Close()
		want(t, client, "api/api.test", 0, 0)
		if log.String() != "" {
			t.Errorf("the reader was told, and the log too: %s", log)
		}
	})
}

// TestBodyNeverClosed: the lease's MaxHold ends it, and a warning says where.
func TestBodyNeverClosed(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, log := store.Client(), new(logs)
		tr := newTransport(t, client, 1, endless, log.option(), berthhttp.RecordCallers())
		leaks := http.Client{Transport: tr}
		_, err := leaks.Do(get(t.Context(), t, api))
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(berthhttp.DefaultTransportMaxHold - time.Second)
		want(t, client, "api/api.test", 1, 0)
		if log.String() != "" {
			t.Errorf("a warning came early: %s", log)
		}
		<-time.After(2 * time.Second)
		want(t, client, "api/api.test", 0, 0)
		if log.Count("MaxHold") != 1 || log.Count("TestBodyNeverClosed") != 1 || log.Count("transport_test.go:") != 1 {
			t.Errorf("the warning does not say where: %s", log)
		}
	})
}

// TestCallerIsAboveAllTransports: where one limit stands behind another, too, the warning names
// who made the request.
func TestCallerIsAboveAllTransports(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, log := store.Client(), new(logs)
		inner := newTransport(t, client, 2, endless, log.option(), berthhttp.RecordCallers())
		outer := newTransport(t, client, 2, berthhttp.Base(inner))
		leaks := http.Client{Transport: outer}
		if _, err := leaks.Do(get(t.Context(), t, api)); err != nil {
			t.Fatal(err)
		}
		<-time.After(berthhttp.DefaultTransportMaxHold + time.Second)
		if log.Count("MaxHold") != 1 || log.Count("TestCallerIsAboveAllTransports") != 1 {
			t.Errorf("the warning does not say where: %s", log)
		}
	})
}

func TestNoWarningForOtherEnds(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		log := new(logs)
		tr := newTransport(t, store.Client(), 1, endless, log.option(), berthhttp.LeaseOptions(berth.MaxHold(time.Minute)))
		holdOne(t, tr)()
		free := holdOne(t, tr)
		<-time.After(30 * time.Second)
		free()
		<-time.After(time.Hour)
		if log.String() != "" {
			t.Errorf("logged: %s", log)
		}
	})
}

func TestHostsDoNotShareALimit(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		tr := newTransport(t, store.Client(), 1, endless, berthhttp.MaxWait(0))
		defer holdOne(t, tr)()
		for url, free := range map[string]bool{
			"http://API.test:80/":   false,
			"https://api.test/":     false,
			"http://api.test./":     false,
			"http://api.test:8080/": true,
			"http://other.test/":    true,
			"http://[::1]:80/":      true,
		} {
			resp, err := tr.RoundTrip(get(t.Context(), t, url))
			if (err == nil) != free {
				t.Errorf("%s: %v", url, err)
			}
			if resp != nil {
				resp.Body.Close()
			}
		}
	})
}

func TestLimitsPerKey(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		tr := newTransport(t, client, 1, endless,
			berthhttp.Key(func(r *http.Request) string { return r.URL.Path }),
			berthhttp.Limits(func(key string) int { return len(key) }))
		resp, err := tr.RoundTrip(get(t.Context(), t, "http://a.test/abc"))
		if err != nil {
			t.Fatal(err)
		}
		if s := state(t, client, "api/%2Fabc"); s.Limit != 4 || s.InUse != 1 {
			t.Errorf("the semaphore is %+v", s)
		}
		resp.Body.Close()
	})
}

func TestOneLimitForAll(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		defer holdOne(t, newTransport(t, client, 1, endless, berthhttp.Key(nil)))()
		want(t, client, "api", 1, 0)
	})
}
