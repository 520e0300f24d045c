package berthhttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/internal/testkit/hostile"
)

// gate is a handler that serves until it is opened or its request is over.
type gate chan struct{}

func (g gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-g:
	case <-r.Context().Done():
	}
	w.WriteHeader(http.StatusAccepted)
}

// serve has h serve a request in the background.
func serve(t *testing.T, h http.Handler, r *http.Request) (*httptest.ResponseRecorder, <-chan struct{}) {
	t.Helper()
	rec, done := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(rec, r)
	}()
	return rec, done
}

func TestHandlerWaitsInLine(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, g := store.Client(), make(gate)
		h := newHandler(t, client, 1, g)
		_, first := serve(t, h, get(t.Context(), t, "/"))
		want(t, client, "work", 1, 0)
		rec, second := serve(t, h, get(t.Context(), t, "/"))
		want(t, client, "work", 1, 1)
		g <- struct{}{}
		<-first
		want(t, client, "work", 1, 0)
		close(g)
		<-second
		if rec.Code != http.StatusAccepted {
			t.Errorf("the second was answered %d", rec.Code)
		}
		want(t, client, "work", 0, 0)
	})
}

// refusal is a handler, and its answer to a request for which there is no permit.
type refusal struct {
	opts   []berthhttp.Option
	status int
	took   time.Duration
	retry  string
	text   string
}

func TestHandlerRefuses(t *testing.T) {
	for name, c := range map[string]refusal{
		// Permits were held for 10 s lately; two wait already.
		"default":     {status: 429, took: berthhttp.DefaultMaxWait, retry: "30", text: "busy: 2 requests are ahead of this one; try again in 30s\n"},
		"status":      {opts: []berthhttp.Option{berthhttp.Status(503)}, status: 503, took: berthhttp.DefaultMaxWait, retry: "30"},
		"max wait":    {opts: []berthhttp.Option{berthhttp.MaxWait(time.Second)}, status: 429, took: time.Second, retry: "30"},
		"no wait":     {opts: []berthhttp.Option{berthhttp.MaxWait(0)}, status: 429, retry: "30"},
		"queue limit": {opts: []berthhttp.Option{berthhttp.LeaseOptions(berth.QueueLimit(2))}, status: 429, retry: "30"},
		"bad limit": {opts: []berthhttp.Option{
			berthhttp.Key(func(*http.Request) string { return "" }),
			berthhttp.Limits(func(string) int { return -1 }),
		}, status: 500, retry: "1"},
		"limit 0": {opts: []berthhttp.Option{
			berthhttp.Key(func(*http.Request) string { return "" }),
			berthhttp.Limits(func(string) int { return 0 }),
		}, status: 500, retry: "1"},
		"own answer": {opts: []berthhttp.Option{berthhttp.MaxWait(0), berthhttp.Refuse(
			func(w http.ResponseWriter, _ *http.Request, why *berthhttp.RefusedError) {
				if !errors.Is(why, berth.ErrBusy) || why.Ahead != 2 || why.RetryAfter != 30*time.Second {
					w.Header().Set("Wrong", why.Error())
				}
				w.WriteHeader(why.Status + 1)
			})}, status: 430, retry: "30"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) { c.check(t, store) })
		})
	}
}

// check asks the handler, which has served a request of 10 s, while one works and two wait.
func (c refusal) check(t *testing.T, store *berthtest.Store) {
	t.Helper()
	client, g := store.Client(), make(gate)
	defer close(g)
	h := newHandler(t, client, 1, g, berthhttp.MaxWait(time.Hour))
	limited := newHandler(t, client, 1, g, c.opts...)
	_, first := serve(t, limited, get(t.Context(), t, "/"))
	if c.status != 500 {
		<-time.After(10 * time.Second)
		g <- struct{}{}
	}
	<-first
	for range 3 { // one works, two wait
		serve(t, h, get(t.Context(), t, "/"))
	}
	want(t, client, "work", 1, 2)
	began := time.Now()
	rec := httptest.NewRecorder()
	limited.ServeHTTP(rec, get(t.Context(), t, "/"))
	if took := time.Since(began); rec.Code != c.status || took != c.took {
		t.Errorf("answered %d after %v, want %d after %v", rec.Code, took, c.status, c.took)
	}
	if got := rec.Header().Get("Retry-After"); got != c.retry || rec.Header().Get("Wrong") != "" {
		t.Errorf("the header is %v, want Retry-After %s", rec.Header(), c.retry)
	}
	if c.text != "" && rec.Body.String() != c.text {
		t.Errorf("the answer is %q", rec.Body)
	}
	want(t, client, "work", 1, 2)
}

// TestMaxWaiting: so many wait, whatever their keys; one more is refused at once unless a permit
// of its key is free, and those that are served do not count.
func TestMaxWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, g := store.Client(), make(gate)
		var why atomic.Pointer[berthhttp.RefusedError]
		h := newHandler(t, client, 1, g, berthhttp.MaxWaiting(2), berthhttp.MaxWait(10*time.Second),
			berthhttp.Key(func(r *http.Request) string { return r.URL.Path }),
			berthhttp.Refuse(func(w http.ResponseWriter, r *http.Request, refused *berthhttp.RefusedError) {
				why.Store(refused)
				w.WriteHeader(refused.Status)
			}))
		for _, path := range []string{"/a", "/b", "/c", "/a", "/b"} { // three are served
			serve(t, h, get(t.Context(), t, path))
			synctest.Wait()
		}
		began, rec := time.Now(), httptest.NewRecorder()
		h.ServeHTTP(rec, get(t.Context(), t, "/c"))
		if rec.Code != http.StatusTooManyRequests || !errors.Is(why.Load(), berthhttp.ErrMaxWaiting) || time.Since(began) != 0 {
			t.Errorf("answered %d after %v because %v", rec.Code, time.Since(began), why.Load())
		}
		_, free := serve(t, h, get(t.Context(), t, "/d")) // whose key nobody uses
		want(t, client, "work/%2Fd", 1, 0)
		<-time.After(11 * time.Second) // both have been refused
		_, last := serve(t, h, get(t.Context(), t, "/e"))
		want(t, client, "work/%2Fe", 1, 0)
		close(g)
		<-free
		<-last
	})
}

// TestClientGoneWhileWaiting: it loses its place, and the next moves up.
func TestClientGoneWhileWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, g := store.Client(), make(gate)
		h := newHandler(t, client, 1, g, berthhttp.MaxWait(time.Hour))
		serve(t, h, get(t.Context(), t, "/"))
		want(t, client, "work", 1, 0)
		ctx, leave := context.WithCancel(t.Context())
		rec, gone := serve(t, h, get(ctx, t, "/"))
		want(t, client, "work", 1, 1)
		served, next := serve(t, h, get(t.Context(), t, "/"))
		want(t, client, "work", 1, 2)
		leave()
		<-gone
		want(t, client, "work", 1, 1)
		if rec.Code != http.StatusServiceUnavailable || rec.Body.Len() != 0 {
			t.Errorf("answered %d %q to nobody", rec.Code, rec.Body)
		}
		close(g)
		<-next
		if served.Code != http.StatusAccepted {
			t.Errorf("the next one was answered %d", served.Code)
		}
	})
}

// TestDeadlineInTheQueueIsAnswered: the client of a request whose context had a deadline is
// still there, and gets the answer of any other refusal.
func TestDeadlineInTheQueueIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, g := store.Client(), make(gate)
		var why error
		h := newHandler(t, client, 1, g, berthhttp.MaxWait(time.Hour), berthhttp.Refuse(
			func(w http.ResponseWriter, _ *http.Request, refused *berthhttp.RefusedError) {
				why = refused
				w.WriteHeader(refused.Status)
			}))
		_, first := serve(t, h, get(t.Context(), t, "/"))
		want(t, client, "work", 1, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, get(ctx, t, "/"))
		if rec.Code != http.StatusTooManyRequests || rec.Header().Get("Retry-After") == "" || !errors.Is(why, context.DeadlineExceeded) {
			t.Errorf("answered %d, header %v, because %v", rec.Code, rec.Header(), why)
		}
		want(t, client, "work", 1, 0)
		close(g)
		<-first
	})
}

// TestClientGoneAtItsTurn: the grant and the client's leaving cross. It is not
// served, and its permit does not stay.
func TestClientGoneAtItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		served := 0
		ctx, leave := context.WithCancel(t.Context())
		next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Context().Err() != nil {
				t.Error("a request was served whose client had gone")
			}
			served++
		})
		// The last moment at which the context can end unseen is after the grant.
		hooked := berth.Hook(berth.Hooks{AcquireDone: func(context.Context, berth.AcquireInfo, *berth.Lease, error) { leave() }})
		h := newHandler(t, store.Client(hooked), 1, next)
		h.ServeHTTP(httptest.NewRecorder(), get(ctx, t, "/"))
		if served != 0 {
			t.Error("a request was served whose client had gone")
		}
		want(t, client, "work", 0, 0)
	})
}

func TestHandlerPanics(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		h := newHandler(t, client, 1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		func() {
			defer func() {
				if recover() != http.ErrAbortHandler {
					t.Error("the panic did not pass")
				}
			}()
			h.ServeHTTP(httptest.NewRecorder(), get(t.Context(), t, "/"))
		}()
		want(t, client, "work", 0, 0)
	})
}

func TestLostLeaseEndsTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		log := new(logs)
		var cause error
		h := newHandler(t, store.Client(), 1, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			lease, _ := berth.FromContext(r.Context())
			store.Lose(lease)
			<-r.Context().Done()
			synctest.Wait() // a handler that has returned is not told of
			cause = context.Cause(r.Context())
		}), log.option())
		h.ServeHTTP(httptest.NewRecorder(), get(t.Context(), t, "/"))
		if !errors.Is(cause, berth.ErrLost) || log.Count("lease was lost") != 1 {
			t.Errorf("the request's context has cause %v; log: %s", cause, log)
		}
	})
}

type someKey struct{}

// TestContextOfARequest: it keeps what it had, and has the innermost lease.
func TestContextOfARequest(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		var ctx context.Context
		names := []string{}
		note := func(r *http.Request) {
			lease, _ := berth.FromContext(r.Context())
			names = append(names, lease.Name())
		}
		inner := newHandler(t, client, 1, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			ctx = r.Context() //nolint:fatcontext // to be looked at later
			note(r)
		}), berthhttp.Key(func(*http.Request) string { return "inner" }))
		outer := newHandler(t, client, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			note(r)
			inner.ServeHTTP(w, r)
		}))
		deadline := time.Now().Add(time.Hour)
		parent, cancel := context.WithDeadline(context.WithValue(t.Context(), someKey{}, 7), deadline)
		defer cancel()
		outer.ServeHTTP(httptest.NewRecorder(), get(parent, t, "/"))
		if strings.Join(names, " ") != "work work/inner" {
			t.Errorf("the leases are %v", names)
		}
		if at, ok := ctx.Deadline(); !ok || !at.Equal(deadline) || ctx.Value(someKey{}) != 7 {
			t.Error("the request's context lost its deadline or its values")
		}
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("the request's context did not end with the request")
		}
	})
}

// TestHostileKeys: whatever a client sends is counted, each for itself, and
// leaves nothing behind.
func TestHostileKeys(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		served := 0
		h := newHandler(t, store.Client(), 1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }),
			berthhttp.Key(func(r *http.Request) string { return r.Header.Get("X-Tenant") }))
		for i, key := range hostile.Keys() {
			r := get(t.Context(), t, "/")
			r.Header["X-Tenant"] = []string{key}
			rec := httptest.NewRecorder()
			if h.ServeHTTP(rec, r); rec.Code != http.StatusOK || served != i+1 {
				t.Errorf("key %.40q was answered %d %s", key, rec.Code, rec.Body)
			}
		}
		synctest.Wait()
		// The store's clock stands still here, and so the last tokens are kept for a moment.
		<-time.After(2 * time.Minute)
		if n := store.Redis().DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}

func TestInvalidArguments(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, ok := store.Client(), http.NotFoundHandler()
		transport := func(c *berth.Client, name string, limit int, opts ...berthhttp.Option) error {
			_, err := berthhttp.NewTransport(c, name, limit, opts...)
			return err
		}
		handler := func(next http.Handler, opts ...berthhttp.Option) error {
			_, err := berthhttp.NewHandler(client, "x", 1, next, opts...)
			return err
		}
		for what, err := range map[string]error{
			"nil client":          transport(nil, "x", 1),
			"empty name":          transport(client, "", 1),
			"name with braces":    transport(client, "a}b", 1),
			"long name":           transport(client, strings.Repeat("x", 257), 1),
			"limit -1":            transport(client, "x", -1),
			"nil option":          transport(client, "x", 1, nil),
			"lease option":        transport(client, "x", 1, berthhttp.LeaseOptions(berth.TTL(-1))),
			"max waiting":         transport(client, "x", 1, berthhttp.MaxWaiting(-1)),
			"max hold":            transport(client, "x", 1, berthhttp.MaxHold(-1)),
			"answer within":       transport(client, "x", 1, berthhttp.AnswerWithin(0)),
			"status of transport": transport(client, "x", 1, berthhttp.Status(429)),
			"refuse of transport": transport(client, "x", 1, berthhttp.Refuse(func(http.ResponseWriter, *http.Request, *berthhttp.RefusedError) {})),
			"nil handler":         handler(nil),
			"status 200":          handler(ok, berthhttp.Status(200)),
			"base of handler":     handler(ok, berthhttp.Base(http.DefaultTransport)),
			"callers of handler":  handler(ok, berthhttp.RecordCallers()),
			"limits, no key":      handler(ok, berthhttp.Limits(func(string) int { return 1 })),
			"limits, nil key":     transport(client, "x", 1, berthhttp.Key(nil), berthhttp.Limits(func(string) int { return 1 })),
		} {
			if !errors.Is(err, berth.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", what, err)
			}
		}
		if err := handler(ok); err != nil {
			t.Error(err)
		}
	})
}

// TestWeightAboveTheLimit: to come again helps only where an operator has lowered the limit.
func TestWeightAboveTheLimit(t *testing.T) {
	for name, c := range map[string]struct{ declared, pinned, status int }{
		"declared": {declared: 2, status: http.StatusInternalServerError},
		"pinned":   {declared: 3, pinned: 2, status: http.StatusTooManyRequests},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				client := store.Client()
				h := newHandler(t, client, c.declared, http.NotFoundHandler(),
					berthhttp.PerRequest(func(*http.Request) []berth.AcquireOption { return []berth.AcquireOption{berth.Weight(3)} }))
				if c.pinned > 0 {
					_, first := serve(t, h, get(t.Context(), t, "/")) // which makes the semaphore
					<-first
					if err := berthadmin.Of(client).Pin(t.Context(), "work", c.pinned); err != nil {
						t.Fatal(err)
					}
				}
				rec, done := serve(t, h, get(t.Context(), t, "/"))
				if <-done; rec.Code != c.status {
					t.Errorf("answered %d, want %d: %s", rec.Code, c.status, rec.Body)
				}
			})
		})
	}
}

// TestMissingReplicasAreNotTheLimit: the client is not told to come back when a permit is free.
func TestMissingReplicasAreNotTheLimit(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		h := newHandler(t, store.Client(), 1, make(gate), berthhttp.LeaseOptions(berth.MinReplicas(1)))
		rec, done := serve(t, h, get(t.Context(), t, "/"))
		if <-done; rec.Code != http.StatusServiceUnavailable {
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
	})
}
