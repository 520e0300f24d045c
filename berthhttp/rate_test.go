//nolint:bodyclose // some answers have no body, and a limit must not depend on it
package berthhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
)

// spent is what is spent of the rate of the semaphore api, and of a limit below that, in tokens.
func spent(t *testing.T, client *berth.Client, limit int) int {
	t.Helper()
	sem, err := client.Semaphore("api", limit)
	if err != nil {
		t.Fatal(err)
	}
	var heavy *berth.TooHeavyError
	lease, err := sem.TryAcquire(t.Context(), berth.Cost(berth.MaxLimit).Of("tokens"))
	if err == nil { // nothing is spent, and so the rate was forgotten
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
		return 0
	}
	if !errors.As(err, &heavy) {
		t.Fatal(err)
	}
	return heavy.Spent
}

// byHeader is a cost that the request has in a header.
func byHeader(name string) func(*http.Request) int {
	return func(r *http.Request) int {
		n, _ := strconv.Atoi(r.Header.Get(name))
		return n
	}
}

// newModel returns a Transport to an API that counts requests and tokens.
func newModel(t *testing.T, client *berth.Client, base roundTripper, opts ...berthhttp.Option) *berthhttp.Transport {
	t.Helper()
	return newTransport(t, client, 9, append([]berthhttp.Option{
		berthhttp.Key(nil), berthhttp.Base(base),
		berthhttp.Rate(60, time.Minute), berthhttp.Rate(1000, time.Minute).Of("tokens"),
		berthhttp.Cost(byHeader("Tokens")).Of("tokens"),
	}, opts...)...)
}

// asking is a request for so many tokens.
func asking(t *testing.T, tokens int) *http.Request {
	t.Helper()
	r := get(t.Context(), t, api)
	r.Header.Set("Tokens", strconv.Itoa(tokens))
	return r
}

func hello(r *http.Request) (*http.Response, error) {
	return answer(r, strings.NewReader("hello")), nil
}

// TestCallerSettlesWhatTheBodyTells: the permit of a response is in its request's context, and is kept
// while the caller may settle, which has room for others at once.
func TestCallerSettlesWhatTheBodyTells(t *testing.T) {
	settle := map[string]func(resp *http.Response) error{
		"by the lease": func(resp *http.Response) error {
			lease, ok := berth.FromContext(resp.Request.Context())
			if !ok {
				t.Fatal("no lease")
			}
			return lease.Settle(100, "tokens")
		},
		"by the request": func(resp *http.Response) error { return berthhttp.Settle(resp.Request.Context(), 100, "tokens") },
	}
	for name, how := range settle {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				client := store.Client()
				tr := newModel(t, client, hello)
				resp, err := tr.RoundTrip(asking(t, 900))
				if err != nil {
					t.Fatal(err)
				}
				if n := spent(t, client, 9); n != 900 {
					t.Errorf("%d are spent at first, want 900", n)
				}
				if _, err := io.ReadAll(resp.Body); err != nil {
					t.Fatal(err)
				}
				want(t, client, "api", 1, 0)
				if err := how(resp); err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				want(t, client, "api", 0, 0)
				if n := spent(t, client, 9); n != 100 {
					t.Errorf("%d are spent, want 100", n)
				}
				if err := how(resp); !errors.Is(err, berth.ErrReleased) {
					t.Errorf("after the body was closed: %v", err)
				}
			})
		})
	}
}

// TestReadToTheEndGivesBackWhereNothingIsSettled, though there is a rate.
func TestReadToTheEndGivesBackWhereNothingIsSettled(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		tr := newTransport(t, client, 9, berthhttp.Key(nil), berthhttp.Base(roundTripper(hello)), berthhttp.Rate(60, time.Minute))
		resp, err := tr.RoundTrip(get(t.Context(), t, api))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		want(t, client, "api", 0, 0)
		if err := resp.Request.Context().Err(); err != nil {
			t.Errorf("the context of the response's request has ended: %v", err)
		}
	})
}

// TestAnswerWithoutABodyIsSettled, before that is closed.
func TestAnswerWithoutABodyIsSettled(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		tr := newModel(t, client, func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusTooManyRequests, Body: http.NoBody, Request: r}, nil
		})
		resp, err := tr.RoundTrip(asking(t, 900))
		if err != nil {
			t.Fatal(err)
		}
		if err := berthhttp.Settle(resp.Request.Context(), 0, "tokens"); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
		want(t, client, "api", 0, 0)
		if n := spent(t, client, 9); n != 0 {
			t.Errorf("%d are spent", n)
		}
	})
}

// TestHeadersSettle: the answer tells what the request has cost; if it does not, the estimate stays.
func TestHeadersSettle(t *testing.T) {
	for header, left := range map[string]int{"2.83": 3, "0": 0, " 917 ": 917, "": 500, "-1": 500, "NaN": 500, "1e99": 500} {
		t.Run(header, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				client := store.Client()
				tr := newModel(t, client, func(r *http.Request) (*http.Response, error) {
					resp := answer(r, strings.NewReader("hello"))
					resp.Header = http.Header{"X-Ms-Request-Charge": {header}}
					return resp, nil
				}, berthhttp.SettleBy("tokens", berthhttp.CostIn("x-ms-request-charge")))
				resp, err := tr.RoundTrip(asking(t, 500))
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if n := spent(t, client, 9); n != left {
					t.Errorf("%d are spent while the body is read, want %d", n, left)
				}
				resp.Body.Close()
				want(t, client, "api", 0, 0)
				if n := spent(t, client, 9); n != left {
					t.Errorf("%d are spent, want %d", n, left)
				}
			})
		})
	}
}

// TestWhatCannotBeSettledIsToldOnce, by a warning: there is no rate of that unit.
func TestWhatCannotBeSettledIsToldOnce(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, log := store.Client(), new(logs)
		tr := newModel(t, client, hello, log.option(),
			berthhttp.SettleBy("token", func(*http.Response) (int, bool) { return 1, true }))
		for range 2 {
			resp, err := tr.RoundTrip(asking(t, 1))
			if err != nil {
				t.Fatal(err)
			}
			if err := berthhttp.Settle(resp.Request.Context(), 1, "token"); !errors.Is(err, berth.ErrInvalid) {
				t.Errorf("by hand: %v", err)
			}
			resp.Body.Close()
		}
		if log.Count("cannot be settled") != 1 {
			t.Errorf("log: %s", log)
		}
		if err := berthhttp.Settle(t.Context(), 1, "tokens"); !errors.Is(err, berth.ErrInvalid) {
			t.Errorf("without a permit: %v", err)
		}
	})
}

// TestSettleFindsTheLimitWithTheRate, behind a narrower one, and in a Handler.
func TestSettleFindsTheLimitWithTheRate(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		served := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if err := berthhttp.Settle(r.Context(), 30, "tokens"); err != nil {
				t.Error(err)
			}
		})
		h := newHandler(t, client, 1, served, berthhttp.Key(func(*http.Request) string { return "acme" }),
			berthhttp.And("api", 9, berthhttp.Rate(1000, time.Minute).Of("tokens"), berthhttp.Cost(byHeader("Tokens")).Of("tokens")))
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, asking(t, 500))
		want(t, client, "api", 0, 0)
		if n := spent(t, client, 9); n != 30 || rec.Code != http.StatusOK {
			t.Errorf("%d are spent, want 30; answered %d", n, rec.Code)
		}
	})
}

// TestRefusalByOneLimitCostsNothingOfAnother that it has passed.
func TestRefusalByOneLimitCostsNothingOfAnother(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		lease := occupied(t, store)
		tr := newModel(t, client, hello, berthhttp.And("work", 1), berthhttp.MaxWait(time.Second))
		if _, err := tr.RoundTrip(asking(t, 500)); !errors.Is(err, berthhttp.ErrMaxWait) {
			t.Fatal(err)
		}
		want(t, client, "api", 0, 0)
		if n := spent(t, client, 9); n != 0 {
			t.Errorf("%d are spent of what was never sent", n)
		}
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	})
}

// TestCostsOfRequestsCount: in each unit, and one that is above a rate is never sent.
func TestCostsOfRequestsCount(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		tr := newModel(t, client, hello, berthhttp.MaxWait(0), berthhttp.Cost(byHeader("Calls")))
		ask := func(calls, tokens int) error {
			r := asking(t, tokens)
			r.Header.Set("Calls", strconv.Itoa(calls))
			resp, err := tr.RoundTrip(r)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		var busy *berth.BusyError
		if err := ask(40, 100); err != nil {
			t.Fatal(err)
		}
		if err := ask(21, 100); !errors.As(err, &busy) || busy.Unit != "" || busy.Spent != 40 {
			t.Errorf("too many calls: %v", err)
		}
		if err := ask(1, 901); !errors.As(err, &busy) || busy.Unit != "tokens" || busy.Spent != 100 {
			t.Errorf("too many tokens: %v", err)
		}
		if err := ask(1, 1001); !errors.Is(err, berth.ErrTooHeavy) {
			t.Errorf("more tokens than the rate: %v", err)
		}
		if err := ask(20, 900); err != nil {
			t.Error(err)
		}
	})
}

// TestRetryAfterIsTheRestOfTheWindow, to a second, for who did not wait and for who did.
func TestRetryAfterIsTheRestOfTheWindow(t *testing.T) {
	for name, c := range map[string]struct {
		rate    berthhttp.RateOption
		maxWait time.Duration
		retry   int
	}{
		"refused at once":      {berthhttp.Rate(1, 10*time.Minute), 0, 540},
		"after a wait":         {berthhttp.Rate(1, 10*time.Minute), 500 * time.Millisecond, 540},
		"after a long wait":    {berthhttp.Rate(1, 10*time.Minute), 30 * time.Second, 510},
		"of a bucket":          {berthhttp.Rate(1, 10*time.Minute).Burst(1), 20 * time.Second, 520},
		"in a unit":            {berthhttp.Rate(10, 10*time.Minute).Of("tokens"), 20 * time.Second, 520},
		"of a bucket's refill": {berthhttp.Rate(60, 10*time.Minute).Of("tokens").Burst(10), time.Second, 39},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				h := newHandler(t, store.Client(), 5, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
					c.rate, berthhttp.Cost(byHeader("Tokens")).Of("tokens"), berthhttp.MaxWait(c.maxWait))
				h.ServeHTTP(httptest.NewRecorder(), asking(t, 10))
				<-time.After(time.Minute)
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, asking(t, 10))
				retry, err := strconv.Atoi(rec.Header().Get("Retry-After"))
				if late := retry - c.retry; rec.Code != http.StatusTooManyRequests || err != nil || late < 0 || late > 1+6 {
					t.Errorf("answered %d, Retry-After %q, want %d", rec.Code, rec.Header().Get("Retry-After"), c.retry)
				}
			})
		})
	}
}

// TestRetryAfterCountsThoseInLine: each of them uses up what comes back first.
func TestRetryAfterCountsThoseInLine(t *testing.T) {
	for name, c := range map[string]struct {
		rate berthhttp.RateOption
		want int
	}{
		"a window": {berthhttp.Rate(1, 10*time.Minute), 1140},
		"a bucket": {berthhttp.Rate(1, 10*time.Minute).Burst(1), 1140},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				client, done := store.Client(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
				patient := newHandler(t, client, 5, done, c.rate, berthhttp.MaxWait(time.Hour))
				hasty := newHandler(t, client, 5, done, c.rate, berthhttp.MaxWait(time.Minute))
				patient.ServeHTTP(httptest.NewRecorder(), get(t.Context(), t, "/"))
				_, first := serve(t, patient, get(t.Context(), t, "/"))
				want(t, client, "work", 0, 1)
				rec := httptest.NewRecorder()
				hasty.ServeHTTP(rec, get(t.Context(), t, "/"))
				if retry, _ := strconv.Atoi(rec.Header().Get("Retry-After")); retry < c.want || retry > c.want+c.want/100+1 {
					t.Errorf("Retry-After %d, want %d", retry, c.want)
				}
				<-first
			})
		})
	}
}

// TestFailEarlyIsToldAtOnce where a rate or a pause keeps a request out for longer than it may wait, by
// MaxWait or its own deadline; what has the time waits.
func TestFailEarlyIsToldAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		early := berthhttp.LeaseOptions(berth.FailEarly())
		rate := berthhttp.Rate(1000, time.Minute).Of("tokens")
		tokens := berthhttp.Cost(byHeader("Tokens")).Of("tokens")
		hasty := newHandler(t, client, 5, http.NotFoundHandler(), rate, tokens, early, berthhttp.MaxWait(10*time.Second))
		endless := newHandler(t, client, 5, http.NotFoundHandler(), rate, tokens, early, berthhttp.MaxWait(-1))
		hasty.ServeHTTP(httptest.NewRecorder(), asking(t, 900))

		began := time.Now()
		rec := httptest.NewRecorder()
		hasty.ServeHTTP(rec, asking(t, 200))
		if retry := rec.Header().Get("Retry-After"); rec.Code != http.StatusTooManyRequests || retry != "61" || time.Since(began) != 0 {
			t.Errorf("answered %d after %v, Retry-After %q", rec.Code, time.Since(began), retry)
		}
		r := asking(t, 200)
		ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
		defer cancel()
		endless.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
		if took := time.Since(began); took != 0 {
			t.Errorf("a request with a deadline took %v", took)
		}
		want(t, client, "work", 0, 0)
		hasty.ServeHTTP(rec, asking(t, 100)) // for which there is room
		<-time.After(52 * time.Second)
		rec = httptest.NewRecorder()
		hasty.ServeHTTP(rec, asking(t, 200))
		if took := time.Since(began); rec.Code != http.StatusNotFound || took < time.Minute || took > 62*time.Second {
			t.Errorf("answered %d after %v, and it had the time", rec.Code, took)
		}
	})
}
