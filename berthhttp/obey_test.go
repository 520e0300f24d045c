//nolint:bodyclose // the answers have no body
package berthhttp_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
)

// TestRetryAfterHoldsTheFleetStill: after an answer that says when to come back, no program sends
// a request before then, and all go on by themselves.
func TestRetryAfterHoldsTheFleetStill(t *testing.T) {
	for what, c := range map[string]struct {
		status int
		header http.Header
		want   time.Duration // until the next request is sent
	}{
		"seconds":      {429, http.Header{"Retry-After": {"7"}}, 7 * time.Second},
		"unavailable":  {503, http.Header{"Retry-After": {" 7 "}}, 7 * time.Second},
		"too long":     {429, http.Header{"Retry-After": {"86400"}}, time.Minute},
		"a date":       {429, http.Header{"Retry-After": {"Thu, 26 Nov 2026 12:00:09 GMT"}, "Date": {"Thu, 26 Nov 2026 12:00:00 GMT"}}, 9 * time.Second},
		"a past date":  {429, http.Header{"Retry-After": {"Thu, 26 Nov 1998 12:00:09 GMT"}}, 0},
		"nonsense":     {429, http.Header{"Retry-After": {"soon"}}, 0},
		"negative":     {429, http.Header{"Retry-After": {"-7"}}, 0},
		"no header":    {429, http.Header{}, 0},
		"of a success": {200, http.Header{"Retry-After": {"7"}}, 0},
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
		for _, most := range []time.Duration{0, -1, time.Millisecond, berth.MaxTTL + 1} {
			if _, err := berthhttp.NewTransport(client, "api", 2, berthhttp.ObeyRetryAfter(most)); !errors.Is(err, berth.ErrInvalid) {
				t.Errorf("%v: %v", most, err)
			}
		}
	})
}
