package berthotel_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/codes"

	"github.com/berth-go/berth/berthhttp"
)

// TestObservedRequestsAreCountedApart: they have neither waited nor been refused.
func TestObservedRequestsAreCountedApart(t *testing.T) {
	observe(t, func(w *world) {
		h, err := berthhttp.NewHandler(w.client, "a", 1, http.NotFoundHandler(), berthhttp.Observe())
		if err != nil {
			t.Fatal(err)
		}
		ask := func() {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(w.Context(), http.MethodGet, "/", nil))
		}
		ask()
		w.want(
			"hold.duration{berth.semaphore.name=a} 1 in 0.000 s",
			"leases.granted{berth.semaphore.name=a} 1",
			"requests.observed{berth.outcome=grant,berth.semaphore.name=a} 1",
		)
		defer w.acquire(w.semaphore("a", 1)).Release()
		ask()
		w.want(
			"hold.duration{berth.semaphore.name=a} 1 in 0.000 s",
			"leases.granted{berth.semaphore.name=a} 2",
			"permits.in_use{berth.semaphore.name=a} 1",
			"requests.observed{berth.outcome=grant,berth.semaphore.name=a} 1",
			"requests.observed{berth.outcome=wait,berth.semaphore.name=a} 1",
			"wait.duration{berth.semaphore.name=a} 1 in 0.000 s",
		)
		outcomes := 0
		for _, span := range w.spans.Ended() {
			for _, kv := range span.Attributes() {
				if kv.Key == "berth.outcome" {
					outcomes++
				}
			}
			if span.Status().Code == codes.Error {
				t.Errorf("span %s has failed: %+v", span.Name(), span.Status())
			}
		}
		if outcomes != 2 {
			t.Errorf("%d spans tell of an observation", outcomes)
		}
	})
}
