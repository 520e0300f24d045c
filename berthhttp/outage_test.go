//nolint:bodyclose // what happens to bodies that are not closed, and to requests without one, is the subject
package berthhttp_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// outages are the ways in which Redis can fail to answer.
var outages = map[string]func(*berthtest.Store){
	"away":  func(s *berthtest.Store) { s.Down() },
	"hangs": func(s *berthtest.Store) { s.Slow(24 * time.Hour) },
}

// lookTime is how long it takes to find out that Redis hangs, and a little more.
const lookTime = 3500 * time.Millisecond

func TestTransportFailsClosed(t *testing.T) {
	for name, fail := range outages {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				client, log, sent := store.Client(), new(logs), 0
				tr := newTransport(t, client, 1, log.option(), berthhttp.Base(roundTripper(func(*http.Request) (*http.Response, error) {
					sent++
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
				})))
				fail(store)
				for _, most := range []time.Duration{berthhttp.DefaultTransportAnswerWithin, 0, 0} {
					began := time.Now()
					if _, err := tr.RoundTrip(get(t.Context(), t, api)); !errors.Is(err, berth.ErrUnreachable) {
						t.Fatalf("RoundTrip returned %v, want ErrUnreachable", err)
					}
					if took := time.Since(began); took > most {
						t.Errorf("a refusal took %v, want %v", took, most)
					}
					if most > 0 {
						<-time.After(lookTime)
					}
				}
				if sent != 0 || log.Count("redis is away") != 1 {
					t.Errorf("%d requests were sent; log: %s", sent, log)
				}
				store.Slow(0)
				store.Up()
				<-time.After(2 * time.Second)
				if _, err := tr.RoundTrip(get(t.Context(), t, api)); err != nil {
					t.Errorf("after the outage: %v", err)
				}
				// Redis is found to be away before the first request is counted, or after.
				if log.Count("redis is back") != 1 || log.requests() != 3 {
					t.Errorf("log: %s", log)
				}
			})
		})
	}
}

func TestFailOpen(t *testing.T) {
	for name, fail := range outages {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				client, log, told := store.Client(), new(logs), 0
				tr := newTransport(t, client, 1, endless, log.option(), berthhttp.FailOpen(func(_ *http.Request, why error) {
					told++
					if !errors.Is(why, berth.ErrUnreachable) {
						t.Errorf("told of %v", why)
					}
				}))
				fail(store)
				for range 5 {
					defer holdOne(t, tr)()
				}
				if told != 5 || log.Count("pass without a limit") != 1 {
					t.Errorf("told %d times of 5; log: %s", told, log)
				}
				store.Slow(0)
				store.Up()
				<-time.After(2 * time.Second)
				free := holdOne(t, tr)
				want(t, client, "api/api.test", 1, 0)
				free()
				if told != 5 {
					t.Errorf("told %d times", told)
				}
			})
		})
	}
}

// TestHooksSeeEveryRequestOfAnOutage: those that are not sent, too, whether they are refused
// or pass, or metrics would stand still while Redis is away.
func TestHooksSeeEveryRequestOfAnOutage(t *testing.T) {
	for how, opts := range map[string][]berthhttp.Option{"closed": nil, "open": {berthhttp.FailOpen(nil)}} {
		for wait, bound := range map[string]time.Duration{"waits": -1, "tries": 0} {
			for name, fail := range outages {
				t.Run(how+" "+wait+" "+name, func(t *testing.T) {
					bubble(t, func(t *testing.T, store *berthtest.Store) {
						started, unreachable := 0, 0
						client := store.Client(berth.Hook(berth.Hooks{
							AcquireStart: func(ctx context.Context, _ berth.AcquireInfo) context.Context {
								started++
								return ctx
							},
							AcquireDone: func(_ context.Context, a berth.AcquireInfo, _ *berth.Lease, err error) {
								if a.Name == "api/api.test" && a.Try == (bound == 0) && errors.Is(err, berth.ErrUnreachable) {
									unreachable++
								}
							},
						}))
						tr := newTransport(t, client, 1, append(opts, endless, berthhttp.MaxWait(bound))...)
						fail(store)
						for n := 1; n <= 5; n++ {
							if resp, err := tr.RoundTrip(get(t.Context(), t, api)); err == nil {
								defer resp.Body.Close()
							}
							if started != n || unreachable != n {
								t.Fatalf("after %d requests the hooks have seen %d, of them %d unreachable", n, started, unreachable)
							}
							if n == 1 {
								<-time.After(lookTime) // until the outage is known
							}
						}
					})
				})
			}
		}
	}
}

// TestOutageMakesNoLimitValid: a request that Limits refuses does not pass in an outage.
func TestOutageMakesNoLimitValid(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		limits := map[string]int{"/a": 1}
		h := newHandler(t, store.Client(), 1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), berthhttp.FailOpen(nil),
			berthhttp.Key(func(r *http.Request) string { return r.URL.Path }),
			berthhttp.Limits(func(key string) int { return limits[key] }))
		store.Down()
		for _, c := range []struct {
			path   string
			status int
		}{{"/none", http.StatusInternalServerError}, {"/a", http.StatusOK}, {"/none", http.StatusInternalServerError}} {
			rec := httptest.NewRecorder()
			if h.ServeHTTP(rec, get(t.Context(), t, c.path)); rec.Code != c.status {
				t.Errorf("%s was answered %d, want %d", c.path, rec.Code, c.status)
			}
		}
	})
}

// TestOneAsksForAll: while Redis is away, one request a second finds out.
func TestOneAsksForAll(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		tr := newTransport(t, store.Client(), 1, endless, berthhttp.FailOpen(nil), berthhttp.AnswerWithin(100*time.Millisecond))
		store.Slow(time.Hour)
		waited := 0
		for range 100 {
			began := time.Now()
			holdOne(t, tr)()
			if time.Since(began) > 0 {
				waited++
			}
			<-time.After(100 * time.Millisecond)
		}
		if waited < 5 || waited > 12 {
			t.Errorf("%d of 100 requests in 10 s waited for Redis", waited)
		}
	})
}

// TestCrowdAfterAnOutage: of many requests at one moment, one asks.
func TestCrowdAfterAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		tr := newTransport(t, store.Client(), 1, endless, berthhttp.FailOpen(nil))
		store.Slow(time.Hour)
		holdOne(t, tr)()
		<-time.After(10 * time.Second)
		var waited atomic.Int32
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				began := time.Now()
				holdOne(t, tr)()
				if time.Since(began) > 0 {
					waited.Add(1)
				}
			})
		}
		wg.Wait()
		if n := waited.Load(); n != 1 {
			t.Errorf("%d of 10 requests waited for Redis", n)
		}
	})
}

// TestMaxWaitWithoutAnAnswer: who has no place when MaxWait ends has waited for
// Redis, not in line.
func TestMaxWaitWithoutAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		tr := newTransport(t, store.Client(), 1, endless, berthhttp.MaxWait(100*time.Millisecond))
		store.Slow(time.Hour)
		if _, err := tr.RoundTrip(get(t.Context(), t, api)); !errors.Is(err, berth.ErrUnreachable) {
			t.Errorf("RoundTrip returned %v, want ErrUnreachable", err)
		}
	})
}

// TestSlowIsNotAway: an answer within the bound counts, and so does a long wait
// in line.
func TestSlowIsNotAway(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		log := new(logs)
		tr := newTransport(t, store.Client(), 1, endless, log.option(), berthhttp.FailOpen(nil), berthhttp.MaxWait(time.Minute))
		free := holdOne(t, tr)
		store.Slow(400 * time.Millisecond)
		_, err := tr.RoundTrip(get(t.Context(), t, api))
		if !errors.Is(err, berthhttp.ErrMaxWait) || log.String() != "" {
			t.Errorf("RoundTrip returned %v; log: %s", err, log)
		}
		free()
	})
}

// crowded is a hook that holds up all commands in this process, as a pool does
// that has no connection free.
type crowded chan struct{}

func (c crowded) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c crowded) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		<-c
		return next(ctx, cmd)
	}
}

func (c crowded) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		<-c
		return next(ctx, cmds)
	}
}

// TestOwnQueueIsNoOutage: a request that waits for a connection of this process
// is refused, and nobody else is.
func TestOwnQueueIsNoOutage(t *testing.T) {
	for name, opts := range map[string][]berthhttp.Option{
		"closed": nil,
		"open":   {berthhttp.FailOpen(func(*http.Request, error) { t.Error("it opened") })},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				queue, log, served := make(crowded), new(logs), 0
				store.Redis().AddHook(queue)
				client := store.Client()
				h := newHandler(t, client, 1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }),
					append(opts, log.option())...)
				for range 3 {
					began, rec := time.Now(), httptest.NewRecorder()
					h.ServeHTTP(rec, get(t.Context(), t, "/"))
					if took := time.Since(began); rec.Code != http.StatusServiceUnavailable || took != berthhttp.DefaultAnswerWithin {
						t.Errorf("answered %d after %v", rec.Code, took)
					}
				}
				close(queue)
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, get(t.Context(), t, "/"))
				if rec.Code != http.StatusOK || served != 1 || log.Count("redis is away") != 0 || log.Count("no answer in time") != 1 {
					t.Errorf("then answered %d, served %d; log: %s", rec.Code, served, log)
				}
			})
		})
	}
}

// TestEndOfAnOldWaitIsNoAnswer: a request that was queued before Redis went silent, and whose
// time is up, does not say that Redis is there.
func TestEndOfAnOldWaitIsNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		sem, err := client.Semaphore("work", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sem.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		opened := 0
		h := newHandler(t, client, 1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			berthhttp.FailOpen(func(*http.Request, error) { opened++ }))
		answer := func() int {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, get(t.Context(), t, "/"))
			return rec.Code
		}
		old := make(chan int)
		go func() { old <- answer() }() // ends during the look at Redis of the next request
		<-time.After(berthhttp.DefaultMaxWait - berthhttp.DefaultAnswerWithin - time.Second)
		store.Slow(time.Hour)
		if code := answer(); code != http.StatusOK || opened != 1 {
			t.Errorf("answered %d, opened %d times", code, opened)
		}
		if code := <-old; code != http.StatusTooManyRequests {
			t.Errorf("the old one was answered %d", code)
		}
	})
}

// TestRefusalsDoNotOpen: a Redis that says no can be reached, and what it says is told.
func TestRefusalsDoNotOpen(t *testing.T) {
	opened := berthhttp.FailOpen(func(_ *http.Request, why error) { t.Errorf("it opened: %v", why) })
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was served") })
	refused := func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		client, err := berth.New(rdb)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		rec := httptest.NewRecorder()
		newHandler(t, client, 1, next, opened).ServeHTTP(rec, get(t.Context(), t, "/"))
		if rec.Code != http.StatusServiceUnavailable {
			t.Errorf("answered %d", rec.Code)
		}
		tr := newTransport(t, client, 1, opened, berthhttp.AnswerWithin(berthhttp.DefaultAnswerWithin),
			berthhttp.Base(roundTripper(func(*http.Request) (*http.Response, error) { return nil, errors.New("a request was sent") })))
		_, err = tr.RoundTrip(get(t.Context(), t, api))
		if errors.Is(err, berth.ErrUnreachable) || !errors.Is(err, berth.ErrRefused) && !errors.Is(err, berth.ErrCorrupt) {
			t.Errorf("RoundTrip returned %v", err)
		}
	}
	t.Run("corrupt", func(t *testing.T) {
		bubble(t, func(t *testing.T, store *berthtest.Store) {
			for _, key := range []string{"berth:{work}", "berth:{api/api.test}"} {
				if err := store.Redis().Set(t.Context(), key, "?", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			refused(t, store.Redis())
		})
	})
	for name, config := range map[string]string{
		"no replica": "min-replicas-to-write 1", "password": "requirepass secret",
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, redistest.Start(t, redistest.WithConfig(config)).Client(t))
		})
	}
}

// TestCorruptKeyHarmsNobodyElse: what somebody wrote over one key is one key's
// trouble.
func TestCorruptKeyHarmsNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		tr := newTransport(t, store.Client(), 1, endless)
		if err := store.Redis().Set(t.Context(), "berth:{api/bad.test}", "?", 0).Err(); err != nil {
			t.Fatal(err)
		}
		_, err := tr.RoundTrip(get(t.Context(), t, "http://bad.test/"))
		if !errors.Is(err, berth.ErrCorrupt) && !errors.Is(err, berth.ErrRefused) { // the embedded store's words differ
			t.Errorf("RoundTrip returned %v", err)
		}
		holdOne(t, tr)()
	})
}

func TestHandlerWithoutRedis(t *testing.T) {
	for name, fail := range outages {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				served := 0
				var ctx context.Context
				next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					served++
					ctx = r.Context() //nolint:fatcontext // to be looked at later
				})
				closed := newHandler(t, store.Client(), 1, next)
				open := newHandler(t, store.Client(), 1, next, berthhttp.FailOpen(nil))
				fail(store)
				began := time.Now()
				rec := httptest.NewRecorder()
				closed.ServeHTTP(rec, get(t.Context(), t, "/"))
				if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" || served != 0 {
					t.Errorf("answered %d, header %v, served %d", rec.Code, rec.Header(), served)
				}
				if took := time.Since(began); took > berthhttp.DefaultAnswerWithin {
					t.Errorf("the answer took %v", took)
				}
				<-time.After(lookTime)
				began = time.Now()
				closed.ServeHTTP(httptest.NewRecorder(), get(t.Context(), t, "/"))
				if took := time.Since(began); took != 0 {
					t.Errorf("the second answer took %v", took)
				}
				rec = httptest.NewRecorder()
				open.ServeHTTP(rec, get(t.Context(), t, "/"))
				if rec.Code != http.StatusOK || served != 1 || ctx.Err() == nil {
					t.Errorf("failing open answered %d, served %d, context %v", rec.Code, served, ctx.Err())
				}
			})
		})
	}
}

// TestMaxWaitingInAnOutage: a request that waits until it is known whether it may pass counts
// among those that wait; once that is known, all pass.
func TestMaxWaitingInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		var inside, passed, refused atomic.Int32
		h := newHandler(t, store.Client(), 1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed.Add(1) }),
			berthhttp.MaxWaiting(10), berthhttp.FailOpen(nil))
		store.Slow(time.Hour)
		var all sync.WaitGroup
		defer all.Wait()
		crowd := func() {
			for range 20 {
				inside.Add(1)
				all.Go(func() {
					defer inside.Add(-1)
					rec := httptest.NewRecorder()
					h.ServeHTTP(rec, get(t.Context(), t, "/"))
					if rec.Code == http.StatusTooManyRequests {
						refused.Add(1)
					}
				})
			}
			synctest.Wait()
		}
		crowd()
		<-time.After(berthhttp.DefaultAnswerWithin + 500*time.Millisecond) // they wait for the look by now
		crowd()
		if n := inside.Load(); n > 11 {
			t.Errorf("%d requests wait, %d are refused", n, refused.Load())
		}
		<-time.After(lookTime)
		before := refused.Load()
		crowd()
		all.Wait()
		if passed.Load() < 20 || refused.Load() != before {
			t.Errorf("%d requests have passed, %d were refused during a known outage", passed.Load(), refused.Load()-before)
		}
	})
}
