//nolint:bodyclose // the answers have no body
package berthhttp_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
)

func after(text string) http.Header { return http.Header{"Retry-After": {text}} }

func dated(text string) http.Header {
	return http.Header{"Retry-After": {text}, "Date": {"Thu, 26 Nov 2026 12:00:00 GMT"}}
}

// TestRetryAfterHoldsTheFleetStill: after an answer that says when to come back, no program sends
// a request before then, and all go on by themselves.
func TestRetryAfterHoldsTheFleetStill(t *testing.T) {
	for what, c := range map[string]struct {
		status int
		header http.Header
		want   time.Duration // until the next request is sent
	}{
		"seconds":          {429, after("7"), 7 * time.Second},
		"unavailable":      {503, after(" 7 "), 7 * time.Second},
		"forbidden":        {403, after("7"), 7 * time.Second},
		"overloaded":       {529, after("7"), 7 * time.Second},
		"too long":         {429, after("86400"), time.Minute},
		"far too long":     {429, after("99999999999999999999"), time.Minute},
		"longer yet":       {429, after(strings.Repeat("9", 400)), time.Minute},
		"a whole decimal":  {429, after("2.0"), 2 * time.Second},
		"a decimal":        {429, after("1.5"), 2 * time.Second},
		"nearly 5 seconds": {429, after("4.997"), 5 * time.Second},
		"milliseconds":     {429, http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"2"}}, 1500 * time.Millisecond},
		"of Azure":         {429, http.Header{"X-Ms-Retry-After-Ms": {"1500.2"}}, 1501 * time.Millisecond},
		"bad milliseconds": {429, http.Header{"Retry-After-Ms": {"soon"}, "Retry-After": {"2"}}, 2 * time.Second},
		"a date":           {429, dated("Thu, 26 Nov 2026 12:00:09 GMT"), 9 * time.Second},
		"RFC 850":          {429, dated("Thursday, 26-Nov-26 12:00:09 GMT"), 9 * time.Second},
		"RFC 850, far":     {429, dated("Wednesday, 26-Nov-70 12:00:09 GMT"), time.Minute},
		"RFC 850, past":    {429, dated("Friday, 26-Nov-99 12:00:09 GMT"), 0},
		"asctime":          {429, dated("Thu Nov 26 12:00:09 2026"), 9 * time.Second},
		"a past date":      {429, dated("Thu, 26 Nov 1998 12:00:09 GMT"), 0},
		"nothing":          {429, after("0"), 0},
		"nonsense":         {429, after("soon"), 0},
		"negative":         {429, after("-7"), 0},
		"no number":        {429, after("1.2.3"), 0},
		"a dot":            {429, after("."), 0},
		"no header":        {429, http.Header{}, 0},
		"of a success":     {200, after("7"), 0},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				send := func(status int, header http.Header) {
					tr, err := berthhttp.NewTransport(store.Client(), "api", 2, berthhttp.ObeyRetryAfter(time.Minute),
						berthhttp.Base(roundTripper(func(r *http.Request) (*http.Response, error) {
							return &http.Response{StatusCode: status, Header: header, Body: http.NoBody, Request: r}, nil
						})))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := tr.RoundTrip(get(t.Context(), t, api)); err != nil {
						t.Error(err)
					}
				}
				send(c.status, c.header)
				began := time.Now()
				send(200, nil) // of another program
				if took := time.Since(began); took < c.want || took > c.want+50*time.Millisecond {
					t.Errorf("the next request was sent after %v, want %v", took, c.want)
				}
			})
		})
	}
}

// TestObeyRetryAfterIsForATransport, and has bounds.
func TestObeyRetryAfterIsForATransport(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client := store.Client()
		if _, err := berthhttp.NewHandler(client, "api", 2, http.NotFoundHandler(), berthhttp.ObeyRetryAfter(time.Minute)); !errors.Is(err, berth.ErrInvalid) {
			t.Errorf("of a handler: %v", err)
		}
		none := berthhttp.ObeyBy(berthhttp.RetryAfter)
		if _, err := berthhttp.NewTransport(client, "api", 2, none); !errors.Is(err, berth.ErrInvalid) {
			t.Errorf("ObeyBy alone: %v", err)
		}
		if _, err := berthhttp.NewHandler(client, "api", 2, http.NotFoundHandler(), none); !errors.Is(err, berth.ErrInvalid) {
			t.Errorf("ObeyBy of a handler: %v", err)
		}
		for _, most := range []time.Duration{0, -1, time.Millisecond, berth.MaxTTL + 1} {
			if _, err := berthhttp.NewTransport(client, "api", 2, berthhttp.ObeyRetryAfter(most)); !errors.Is(err, berth.ErrInvalid) {
				t.Errorf("%v: %v", most, err)
			}
		}
	})
}

// limited returns a transport whose API answers each request with a status and a header.
func limited(t *testing.T, client *berth.Client, status int, header http.Header, opts ...berthhttp.Option) *berthhttp.Transport {
	t.Helper()
	base := berthhttp.Base(roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: header, Body: http.NoBody, Request: r}, nil
	}))
	tr, err := berthhttp.NewTransport(client, "api", 200, append([]berthhttp.Option{berthhttp.ObeyRetryAfter(time.Minute), base}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestObeyByReadsWhatAnAPISays in its own way.
func TestObeyByReadsWhatAnAPISays(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		tr := limited(t, store.Client(), 200, http.Header{"X-Ratelimit-Reset-Requests": {"9s"}},
			berthhttp.ObeyBy(func(resp *http.Response) time.Duration {
				d, _ := time.ParseDuration(resp.Header.Get("X-Ratelimit-Reset-Requests"))
				return max(d, berthhttp.RetryAfter(resp))
			}))
		began := time.Now()
		for range 2 {
			if _, err := tr.RoundTrip(get(t.Context(), t, api)); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 9*time.Second || took > 9*time.Second+50*time.Millisecond {
			t.Errorf("the next request was sent after %v, want 9s", took)
		}
	})
}

// TestObeyingDelaysNoAnswer: while Redis is silent the answer comes all the same. The next request of
// this program is not sent before Redis knows of the pause, and then finds it.
func TestObeyingDelaysNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		slow := func(r *http.Request) (*http.Response, error) {
			store.Slow(300 * time.Millisecond)
			return &http.Response{StatusCode: http.StatusTooManyRequests, Header: after("7"), Body: http.NoBody, Request: r}, nil
		}
		tr, err := berthhttp.NewTransport(store.Client(), "api", 2, berthhttp.ObeyRetryAfter(time.Minute), berthhttp.Base(roundTripper(slow)))
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: tr, Timeout: 2 * time.Second}
		began := time.Now()
		resp, err := client.Do(get(t.Context(), t, api))
		if err != nil || resp.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("%v, %v", resp, err)
		}
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("the answer came after %v", took)
		}
		if _, err := tr.RoundTrip(get(t.Context(), t, api)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 7*time.Second {
			t.Errorf("the next request was sent after %v, in the pause", took)
		}
		store.Slow(0)
	})
}

// records is a log handler that counts messages.
type records struct {
	slog.Handler
	told chan string
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }

func (r *records) Handle(_ context.Context, one slog.Record) error {
	if one.Message != "berthhttp: a permit could not be given back; it will expire" && strings.HasPrefix(one.Message, "berthhttp: ") {
		r.told <- one.Message
	}
	return nil
}

func (r *records) WithAttrs([]slog.Attr) slog.Handler { return r }

// TestOnePauseIsToldOnce, though many requests get the same answer; so is what cannot be read, and
// that Redis could not be told.
func TestOnePauseIsToldOnce(t *testing.T) {
	for what, c := range map[string]struct {
		header http.Header
		fail   bool
		want   string
	}{
		"a pause":  {after("30"), false, "paused for all"},
		"nonsense": {after("soon"), false, "in no known form"},
		"silence":  {after("30"), true, "the pause could not be set"},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *berthtest.Store) {
				log := &records{slog.DiscardHandler, make(chan string, 1000)}
				ready := make(chan struct{})
				base := berthhttp.Base(roundTripper(func(r *http.Request) (*http.Response, error) {
					<-ready
					return &http.Response{StatusCode: http.StatusTooManyRequests, Header: c.header, Body: http.NoBody, Request: r}, nil
				}))
				tr := limited(t, store.Client(), 0, nil, berthhttp.Logger(slog.New(log)), base)
				for range 100 {
					go func() { _, _ = tr.RoundTrip(get(t.Context(), t, api)) }()
				}
				synctest.Wait()
				if c.fail {
					store.Slow(time.Hour)
				}
				close(ready)
				<-time.After(20 * time.Second)
				if n := len(log.told); n != 1 || !strings.Contains(<-log.told, c.want) {
					t.Errorf("%d records, want one that has %q", n, c.want)
				}
				store.Slow(0)
			})
		})
	}
}
