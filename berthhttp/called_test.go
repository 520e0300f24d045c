package berthhttp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
)

// TestAllFunctionsAreCalled: of several FailOpen options, and an OnQueued of a request beside the one
// of this package.
func TestAllFunctionsAreCalled(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		told := "" // by one request at a time
		tell := func(who string) berthhttp.Option {
			return berthhttp.FailOpen(func(*http.Request, error) { told += who })
		}
		queued := berthhttp.PerRequest(func(*http.Request) []berth.AcquireOption {
			return []berth.AcquireOption{berth.OnQueued(func(berth.Place) { told += "queued " })}
		})
		g := make(gate)
		h := newHandler(t, store.Client(), 1, g, tell("first "), berthhttp.FailOpen(nil), tell("second "), queued)
		_, holds := serve(t, h, get(t.Context(), t, "/"))
		<-time.After(time.Second)
		waits, refused := serve(t, h, get(t.Context(), t, "/"))
		<-refused
		if waits.Code != http.StatusTooManyRequests {
			t.Errorf("a request that waited was answered %d", waits.Code)
		}
		close(g)
		<-holds
		store.Down()
		_, opened := serve(t, h, get(t.Context(), t, "/"))
		<-opened
		if told != "queued first second " {
			t.Errorf("called: %s", told)
		}
	})
}
