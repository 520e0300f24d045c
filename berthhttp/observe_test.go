package berthhttp_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
)

// seen counts what hooks are told of observed requests, by semaphore and outcome.
type seen struct {
	mu    sync.Mutex
	count map[string]int
}

func (s *seen) hook() berth.ClientOption {
	s.count = map[string]int{}
	return berth.Hook(berth.Hooks{AcquireDone: func(_ context.Context, a berth.AcquireInfo, l *berth.Lease, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.count[a.Name+" "+a.Observed.String()]++
		if !a.Try || (a.Observed == berth.ObservedGrant) != (l != nil) || (l == nil) != (err != nil) {
			s.count["contradiction"]++
		}
	}})
}

func (s *seen) want(t *testing.T, want map[string]int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !maps.Equal(s.count, want) {
		t.Errorf("the hooks saw %v, want %v", s.count, want)
	}
}

// TestObservedRequestsPass at once, and what would have become of them is told.
func TestObservedRequestsPass(t *testing.T) {
	for name, c := range map[string]struct {
		opts    []berthhttp.Option
		outcome string
	}{
		"would wait":                  {nil, "wait"},
		"may not wait":                {[]berthhttp.Option{berthhttp.MaxWait(0)}, "refusal"},
		"queue is full":               {[]berthhttp.Option{berthhttp.LeaseOptions(berth.QueueLimit(0))}, "refusal"},
		"too heavy":                   {[]berthhttp.Option{perRequest(berth.Weight(9))}, "refusal"},
		"MaxWaiting is no reason":     {[]berthhttp.Option{berthhttp.MaxWaiting(1)}, "wait"},
		"another limit would pass it": {[]berthhttp.Option{berthhttp.And("all", 9)}, "wait"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				told, log, g := new(seen), new(logs), make(gate)
				client := store.Client(told.hook())
				h := newHandler(t, client, 1, g, append([]berthhttp.Option{log.option(), berthhttp.Observe()}, c.opts...)...)
				lease := occupied(t, store)
				began := time.Now()
				var done []<-chan struct{}
				for range 3 {
					_, one := serve(t, h, get(t.Context(), t, "/"))
					done = append(done, one)
				}
				want(t, client, "work", 1, 0)
				close(g)
				for _, one := range done {
					<-one
				}
				if time.Since(began) != 0 {
					t.Errorf("they waited for %v", time.Since(began))
				}
				want := map[string]int{"work " + c.outcome: 3}
				if name == "another limit would pass it" {
					want["all grant"] = 3
				}
				told.want(t, want)
				if log.Count("let through") != 1 {
					t.Errorf("log: %s", log)
				}
				<-time.After(time.Minute)
				if log.Count("let through") != 2 {
					t.Errorf("log after a minute: %s", log)
				}
				if err := lease.Release(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func perRequest(opts ...berth.AcquireOption) berthhttp.Option {
	return berthhttp.PerRequest(func(*http.Request) []berth.AcquireOption { return opts })
}

// TestObservedRequestHoldsWhatIsFree: others see it taken, and a loss does not end the request.
func TestObservedRequestHoldsWhatIsFree(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		told, g := new(seen), make(gate)
		client := store.Client(told.hook())
		var carried bool
		h := newHandler(t, client, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, carried = berth.FromContext(r.Context())
			g.ServeHTTP(w, r)
		}), berthhttp.Observe(), berthhttp.MaxHold(time.Minute))
		rec, done := serve(t, h, get(t.Context(), t, "/"))
		want(t, client, "work", 1, 0)
		<-time.After(time.Hour)
		want(t, client, "work", 0, 0) // it lost it
		close(g)
		<-done
		if rec.Code != http.StatusAccepted || carried {
			t.Errorf("answered %d; the context carried a lease: %v", rec.Code, carried)
		}
		_, done = serve(t, h, get(t.Context(), t, "/"))
		<-done
		want(t, client, "work", 0, 0)
		told.want(t, map[string]int{"work grant": 2})
	})
}

// TestObservedRequestsPassWithoutRedis, and only those wait for it that come before the outage is known.
func TestObservedRequestsPassWithoutRedis(t *testing.T) {
	for name, fail := range outages {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				told, log, served := new(seen), new(logs), 0
				client := store.Client(told.hook())
				h := newHandler(t, client, 1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }), log.option(), berthhttp.Observe())
				fail(store)
				for n, most := range []time.Duration{berthhttp.DefaultAnswerWithin, 0, 0, 0} {
					began := time.Now()
					_, done := serve(t, h, get(t.Context(), t, "/"))
					if <-done; time.Since(began) > most {
						t.Errorf("request %d waited for %v", n, time.Since(began))
					}
					<-time.After(lookTime)
				}
				if served != 4 || log.Count("pass without a limit") != 1 {
					t.Errorf("%d served; log: %s", served, log)
				}
				told.want(t, map[string]int{"work unknown": 4})
				store.Slow(0)
				store.Up()
				<-time.After(lookTime)
				for range 2 {
					_, done := serve(t, h, get(t.Context(), t, "/"))
					<-done
					<-time.After(lookTime)
				}
				told.want(t, map[string]int{"work unknown": 5, "work grant": 1})
			})
		})
	}
}

// TestObservedRequestThatIsNotValidPasses, and the log tells why.
func TestObservedRequestThatIsNotValidPasses(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		log, served := new(logs), 0
		count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })
		for _, opt := range [][]berthhttp.Option{
			{perRequest(berth.Weight(-1))},
			{berthhttp.Key(berthhttp.ByHeader("X-Tenant")), berthhttp.Limits(func(string) int { return 0 })},
		} {
			h := newHandler(t, store.Client(), 1, count, append(opt, log.option(), berthhttp.Observe())...)
			_, done := serve(t, h, get(t.Context(), t, "/"))
			<-done
		}
		if served != 2 || log.Count("would_be_refused=1") != 2 || log.Count("invalid") != 2 {
			t.Errorf("%d served; log: %s", served, log)
		}
	})
}

// TestObservedRequestPanics: a hook that panics takes no permit.
func TestObservedRequestPanics(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client(berth.Hook(berth.Hooks{AcquireDone: func(_ context.Context, a berth.AcquireInfo, _ *berth.Lease, _ error) {
			if a.Name == "all" {
				panic(errors.New("a bug"))
			}
		}}))
		h := newHandler(t, client, 1, http.NotFoundHandler(), berthhttp.Observe(), berthhttp.And("all", 1))
		func() {
			defer func() { _ = recover() }()
			h.ServeHTTP(nil, get(t.Context(), t, "/"))
		}()
		want(t, client, "work", 0, 0)
		want(t, client, "all", 0, 0)
	})
}
