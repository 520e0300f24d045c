//nolint:bodyclose // most answers have no body
package berthhttp_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

var byTenant = berthhttp.Key(func(r *http.Request) string { return r.Header.Get("X-Tenant") })

// ofTenant is a request of a tenant.
func ofTenant(t *testing.T, tenant string) *http.Request {
	t.Helper()
	r := get(t.Context(), t, api)
	r.Header.Set("X-Tenant", tenant)
	return r
}

// newLLM returns a Transport with a limit for each tenant and, beyond it, one for all.
func newLLM(t *testing.T, c *berth.Client, tenant, all int, opts ...berthhttp.Option) *berthhttp.Transport {
	t.Helper()
	opts = append([]berthhttp.Option{
		byTenant, berthhttp.And("llm", all), berthhttp.Logger(slog.New(slog.DiscardHandler)),
	}, opts...)
	tr, err := berthhttp.NewTransport(c, "llm/tenant", tenant, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestWaitingForTheTenantHoldsNothingOfAll, although the name of the wide limit comes first.
func TestWaitingForTheTenantHoldsNothingOfAll(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		tr := newLLM(t, client, 2, 20, endless)
		free := make(chan bool)
		for range 14 {
			go func() {
				resp, err := tr.RoundTrip(ofTenant(t, "greedy"))
				if err != nil {
					t.Error(err)
					return
				}
				<-free
				resp.Body.Close()
			}()
		}
		want(t, client, "llm/tenant/greedy", 2, 12)
		want(t, client, "llm", 2, 0)
		close(free)
		want(t, client, "llm/tenant/greedy", 0, 0)
		want(t, client, "llm", 0, 0)
	})
}

// TestLevelSaysOtherwise: an explicit level changes the order.
func TestLevelSaysOtherwise(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		tr, err := berthhttp.NewTransport(client, "wide", 1, berthhttp.Key(nil), berthhttp.MaxWait(time.Second), endless,
			berthhttp.LeaseOptions(berth.Level(2)), berthhttp.And("narrow", 1))
		if err != nil {
			t.Fatal(err)
		}
		defer holdOne(t, tr)()
		var refused *berthhttp.RefusedError
		if _, err := tr.RoundTrip(get(t.Context(), t, api)); !errors.As(err, &refused) || refused.Name != "narrow" {
			t.Errorf("both are taken, and %v", err)
		}
	})
}

// TestRefusalGivesBackWhatWasTaken, whichever limit refuses and however the wait ends.
func TestRefusalGivesBackWhatWasTaken(t *testing.T) {
	for name, c := range map[string]struct {
		opts []berthhttp.Option
		want error
	}{
		"no wait":    {[]berthhttp.Option{berthhttp.MaxWait(0)}, berth.ErrBusy},
		"max wait":   {[]berthhttp.Option{berthhttp.MaxWait(time.Second)}, berthhttp.ErrMaxWait},
		"queue full": {[]berthhttp.Option{berthhttp.And("third", 1, berthhttp.LeaseOptions(berth.Level(9)))}, berth.ErrQueueFull},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				client := store.Client()
				other, err := client.Semaphore("all", 1)
				if err != nil {
					t.Fatal(err)
				}
				lease, err := other.Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				opts := append(c.opts, byTenant, berthhttp.And("all", 1, berthhttp.LeaseOptions(berth.QueueLimit(1))))
				h := newHandler(t, client, 5, http.NotFoundHandler(), append(opts, berthhttp.Refuse(
					func(_ http.ResponseWriter, _ *http.Request, why *berthhttp.RefusedError) {
						if !errors.Is(why, c.want) || why.Name != "all" || why.Status != http.StatusTooManyRequests {
							t.Errorf("refused with %d: %v", why.Status, why)
						}
					}))...)
				if name == "queue full" {
					go func() { _, _ = other.Acquire(t.Context()) }()
					synctest.Wait()
				}
				h.ServeHTTP(httptest.NewRecorder(), ofTenant(t, "a"))
				want(t, client, "work/a", 0, 0)
				if err := lease.Release(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestRetryAfterIsTrueForAllLimits: a refused request that comes back in time is let through, and a
// moment before it is not, whichever limit refuses, and whatever has room for longest.
func TestRetryAfterIsTrueForAllLimits(t *testing.T) {
	cost := berthhttp.PerRequest(func(*http.Request) []berth.AcquireOption { return []berth.AcquireOption{berth.Cost(40)} })
	for name, c := range map[string]struct {
		narrow, wide []berthhttp.LimitOption
		refuses      string
		room         time.Duration
	}{
		"the one that refuses has room last": {
			[]berthhttp.LimitOption{berthhttp.Rate(1, 20*time.Second)}, []berthhttp.LimitOption{berthhttp.Rate(1, 10*time.Second)}, "work/a", 15 * time.Second,
		},
		"a later one has room last": {
			[]berthhttp.LimitOption{berthhttp.Rate(1, 10*time.Second)}, []berthhttp.LimitOption{berthhttp.Rate(1, 20*time.Second)}, "work/a", 15 * time.Second,
		},
		"an earlier one was not spent by the try": {
			[]berthhttp.LimitOption{berthhttp.Rate(2, 20*time.Second)}, []berthhttp.LimitOption{berthhttp.Rate(1, 10*time.Second)}, "all", 5 * time.Second,
		},
		"a costly request": {
			[]berthhttp.LimitOption{berthhttp.Rate(1, 10*time.Second)}, []berthhttp.LimitOption{berthhttp.Rate(60, 20*time.Second), cost}, "work/a", 15 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				served := 0
				opts := []berthhttp.Option{byTenant, berthhttp.MaxWait(0), berthhttp.And("all", 5, c.wide...)}
				for _, o := range c.narrow {
					opts = append(opts, o)
				}
				var why *berthhttp.RefusedError
				opts = append(opts, berthhttp.Refuse(func(_ http.ResponseWriter, _ *http.Request, r *berthhttp.RefusedError) { why = r }))
				h := newHandler(e.T, e.Peer().Client, 5, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }), opts...)
				ask := func() { h.ServeHTTP(httptest.NewRecorder(), ofTenant(e.T, "a")) }
				ask()
				e.Pass(5 * time.Second)
				ask()
				if served != 1 || why == nil || why.Name != c.refuses || why.RetryAfter < c.room || why.RetryAfter > c.room+time.Second {
					e.Fatalf("%d were served, and %v has Retry-After %v", served, why, why.RetryAfter)
				}
				e.Pass(why.RetryAfter)
				if ask(); served != 2 {
					e.Errorf("after the time of Retry-After: %v", why)
				}
			})
		})
	}
}

// TestRetryAfterLooksAtTheOtherLimits: a request that its tenant's rate does not let in for five
// seconds is told to come back later if there will be no permit of the other limit by then.
func TestRetryAfterLooksAtTheOtherLimits(t *testing.T) {
	for name, c := range map[string]struct {
		held, queued int // of two permits for 20 s, and requests of two for 10 s
		pause        func(ctx context.Context, in *testenv.Inspector) error
		lost         bool // the look
		want         time.Duration
	}{
		"idle":               {want: 5 * time.Second},
		"one is free":        {held: 1, want: 5 * time.Second},
		"none is free":       {held: 2, want: 20 * time.Second},
		"nobody knows":       {held: 2, lost: true, want: 5 * time.Second},
		"one waits for both": {held: 1, queued: 1, want: 10 * time.Second},
		"two wait for both":  {held: 1, queued: 2, want: 20 * time.Second},
		"a pause":            {held: 1, want: 20 * time.Second, pause: func(ctx context.Context, in *testenv.Inspector) error { return in.Pause(ctx, "all") }},
		"a pause that ends": {held: 1, want: 15 * time.Second, pause: func(ctx context.Context, in *testenv.Inspector) error {
			return in.PauseFor(ctx, "all", 14500*time.Millisecond)
		}},
		"a pause of what waits": {held: 2, want: 30 * time.Second, pause: func(ctx context.Context, in *testenv.Inspector) error {
			return in.PauseFor(ctx, "all", 29500*time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Embedded(t, func(e *testenv.Env) {
				var why *berthhttp.RefusedError
				p := e.Peer()
				h := newHandler(e.T, p.Client, 5, http.NotFoundHandler(), byTenant, berthhttp.MaxWait(0),
					berthhttp.Rate(1, 10*time.Second), berthhttp.And("all", 2),
					berthhttp.Refuse(func(_ http.ResponseWriter, _ *http.Request, r *berthhttp.RefusedError) { why = r }))
				ask := func() { h.ServeHTTP(httptest.NewRecorder(), ofTenant(e.T, "a")) }
				ask()
				e.Pass(5500 * time.Millisecond)
				all := e.Peer().Named("all", 2, berth.TTL(20*time.Second))
				for range c.held {
					e.Hold(all)
				}
				for range c.queued {
					e.Queue(all, berth.Weight(2))
				}
				if c.lost {
					p.Net.Inject(redistest.Rule{Fault: redistest.Reset, Match: testenv.IsLook, Times: -1})
				}
				if c.pause != nil {
					e.Must(c.pause(e.Ctx, e.Inspector))
				}
				if ask(); why == nil || why.Name != "work/a" || why.RetryAfter != c.want {
					e.Errorf("Retry-After %v, want %v, of %v", why.RetryAfter, c.want, why)
				}
			})
		})
	}
}

// TestSeveralLimitsOnAServer: the same on Redis, with what a server answers: a request is refused by
// its tenant's limit, and may not come back before all have room.
func TestSeveralLimitsOnAServer(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		h := newHandler(e.T, e.Peer().Client, 5, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), byTenant,
			berthhttp.MaxWait(0), berthhttp.AnswerWithin(time.Minute), berthhttp.Rate(1, time.Minute), berthhttp.And("all", 5, berthhttp.Rate(2, time.Hour)))
		codes := ""
		last := ""
		for _, tenant := range []string{"a", "b", "b"} {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, ofTenant(e.T, tenant))
			codes += fmt.Sprint(rec.Code, " ")
			last = rec.Header().Get("Retry-After")
		}
		if d, err := time.ParseDuration(last + "s"); codes != "200 200 429 " || err != nil || d < 50*time.Minute || d > time.Hour+37*time.Second {
			e.Errorf("answered %swith Retry-After %q", codes, last)
		}
		st, err := e.Inspector.Show(e.Ctx, "all")
		e.Must(err)
		if len(st.Rates) != 1 || st.Rates[0].Spent != 2 {
			e.Errorf("%v of the rate of all are spent: a look costs nothing", st.Rates)
		}
	})
}

// TestLosingOneOfTheLeasesEndsTheRequest, and gives the others back.
func TestLosingOneOfTheLeasesEndsTheRequest(t *testing.T) {
	for _, name := range []string{"llm/tenant/a", "llm"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				client := store.Client()
				tr := newLLM(t, client, 1, 1, endless)
				resp, err := tr.RoundTrip(ofTenant(t, "a"))
				if err != nil {
					t.Fatal(err)
				}
				evict(t, client, name)
				synctest.Wait()
				if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, berth.ErrLost) {
					t.Errorf("reading after the loss: %v", err)
				}
				want(t, client, "llm/tenant/a", 0, 0)
				want(t, client, "llm", 0, 0)
			})
		})
	}
}

// TestLosingALeaseEndsTheWaitForTheNext: it would be of no use.
func TestLosingALeaseEndsTheWaitForTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		tr := newLLM(t, client, 1, 1, endless)
		free := make(chan error)
		first, err := tr.RoundTrip(ofTenant(t, "a"))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := tr.RoundTrip(ofTenant(t, "b"))
			free <- err
		}()
		want(t, client, "llm", 1, 1)
		evict(t, client, "llm/tenant/b")
		var refused *berthhttp.RefusedError
		if err := <-free; !errors.Is(err, berth.ErrLost) || !errors.As(err, &refused) || refused.Name != "llm" {
			t.Errorf("the wait ended with %v", err)
		}
		want(t, client, "llm", 1, 0)
		first.Body.Close()
	})
}

// TestMaxWaitBoundsAllWaitsTogether, and is no silence of Redis.
func TestMaxWaitBoundsAllWaitsTogether(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		tr := newLLM(t, client, 1, 1, endless, berthhttp.MaxWait(10*time.Second))
		first, err := tr.RoundTrip(ofTenant(t, "a"))
		if err != nil {
			t.Fatal(err)
		}
		began, done := time.Now(), make(chan error)
		for range 2 {
			go func() {
				_, err := tr.RoundTrip(ofTenant(t, "b"))
				done <- err
			}()
		}
		for range 2 {
			if err := <-done; !errors.Is(err, berthhttp.ErrMaxWait) || time.Since(began) != 10*time.Second {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
		first.Body.Close()
	})
}

// TestSlowTurnIsNoSilence: a request that has waited for its tenant, and whose time is over before it
// hears of its place in the next queue, has waited for MaxWait and not for Redis.
func TestSlowTurnIsNoSilence(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		tr := newLLM(t, store.Client(), 1, 5, endless, berthhttp.MaxWait(10*time.Second))
		first, err := tr.RoundTrip(ofTenant(t, "a"))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() {
			_, err := tr.RoundTrip(ofTenant(t, "a"))
			done <- err
		}()
		<-time.After(9 * time.Second)
		store.Slow(700 * time.Millisecond)
		first.Body.Close()
		if err := <-done; !errors.Is(err, berthhttp.ErrMaxWait) {
			t.Errorf("refused with %v", err)
		}
		store.Slow(0)
	})
}

// TestObeyRetryAfterPausesItsLimit, and not the others.
func TestObeyRetryAfterPausesItsLimit(t *testing.T) {
	for what, c := range map[string]struct {
		opt  func(...berthhttp.LimitOption) []berthhttp.Option
		want time.Duration // until the request of another tenant is sent
	}{
		"of all": {func(o ...berthhttp.LimitOption) []berthhttp.Option {
			return []berthhttp.Option{berthhttp.And("all", 5, o...)}
		}, 7 * time.Second},
		"of tenants": {func(o ...berthhttp.LimitOption) []berthhttp.Option {
			return []berthhttp.Option{o[0], berthhttp.And("all", 5)}
		}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				base := berthhttp.Base(roundTripper(func(r *http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}}, Body: http.NoBody, Request: r}, nil
				}))
				tr := newTransport(t, store.Client(), 2, append(c.opt(berthhttp.ObeyRetryAfter(time.Minute)), base, byTenant)...)
				began := time.Now()
				for _, tenant := range []string{"a", "b"} {
					if _, err := tr.RoundTrip(ofTenant(t, tenant)); err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(began); took < c.want || took > c.want+50*time.Millisecond {
					t.Errorf("the request of another tenant was sent after %v, want %v", took, c.want)
				}
			})
		})
	}
}

// TestFailOpenWithSeveralLimitsHoldsNone.
func TestFailOpenWithSeveralLimitsHoldsNone(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, opened := store.Client(), 0
		tr := newLLM(t, client, 1, 1, endless, berthhttp.FailOpen(func(*http.Request, error) { opened++ }))
		store.Slow(time.Hour)
		resp, err := tr.RoundTrip(ofTenant(t, "a"))
		if err != nil || opened != 1 {
			t.Fatalf("%v, opened %d times", err, opened)
		}
		resp.Body.Close()
		store.Slow(0)
	})
}

// TestUnusableLimitsAreRefused before anything is sent.
func TestUnusableLimitsAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		for what, opt := range map[string]berthhttp.Option{
			"the same name":            berthhttp.And("api", 2),
			"no name":                  berthhttp.And("", 2),
			"a long name":              berthhttp.And(strings.Repeat("x", 300), 2),
			"a limit below 0":          berthhttp.And("all", -1),
			"no option":                berthhttp.And("all", 2, nil),
			"limits without a key":     berthhttp.And("all", 2, berthhttp.Limits(func(string) int { return 1 })),
			"a bad lease option":       berthhttp.And("all", 2, berthhttp.MaxHold(-1)),
			"no function for costs":    berthhttp.And("all", 2, berthhttp.Cost(nil).Of("tokens")),
			"no function that settles": berthhttp.And("all", 2, berthhttp.SettleBy("tokens", nil)),
			"a pause too short":        berthhttp.And("all", 2, berthhttp.ObeyRetryAfter(1)),
		} {
			if _, err := berthhttp.NewTransport(client, "api", 2, opt); !errors.Is(err, berth.ErrInvalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := berthhttp.NewTransport(client, "api", 2, berthhttp.PerRequest(nil), berthhttp.Key(nil), berthhttp.Tenant(nil)); err != nil {
			t.Errorf("functions that are not there: %v", err)
		}
		if _, err := berthhttp.NewHandler(client, "api", 2, http.NotFoundHandler(), berthhttp.And("all", 2, berthhttp.ObeyRetryAfter(time.Minute))); !errors.Is(err, berth.ErrInvalid) {
			t.Errorf("a Handler that obeys: %v", err)
		}
		tr := newTransport(t, client, 2, berthhttp.And("api/api.test", 2), endless)
		if _, err := tr.RoundTrip(get(t.Context(), t, api)); !errors.Is(err, berth.ErrInvalid) {
			t.Errorf("two limits that turn out to be one: %v", err)
		}
	})
}
