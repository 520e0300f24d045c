package berthhttp_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
)

// occupied takes the permit of the semaphore of newHandler, by another process.
func occupied(t *testing.T, store *berthtest.Store) *berth.Lease {
	t.Helper()
	sem, err := store.Client().Semaphore("work", 1)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := sem.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// TestGrantEndsAnOutage: when a request that was in line before it is served, Redis is back, and those
// who come after it need a permit again.
func TestGrantEndsAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, log := store.Client(), new(logs)
		lease := occupied(t, store)
		opened, served := 0, make(chan struct{}, 3)
		h := newHandler(t, client, 1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served <- struct{}{} }),
			log.option(), berthhttp.FailOpen(func(*http.Request, error) { opened++ }), berthhttp.MaxWait(time.Minute))
		ask := func() { h.ServeHTTP(httptest.NewRecorder(), get(t.Context(), t, "/")) }
		go ask()
		want(t, client, "work", 1, 1)
		store.Slow(time.Hour)
		ask()
		<-served
		if opened != 1 {
			t.Errorf("in an outage it opened %d times", opened)
		}
		store.Slow(0)
		if err := lease.Release(); err != nil {
			t.Fatal(err)
		}
		<-served
		ask()
		<-served
		if opened != 1 || log.Count("redis is back") != 1 {
			t.Errorf("after it, it opened; log: %s", log)
		}
	})
}

// TestPlaceEndsAnOutage: so does the place in line of a request that was sent before.
func TestPlaceEndsAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, store *berthtest.Store) {
		client, opened := store.Client(), 0
		lease := occupied(t, store)
		h := newHandler(t, client, 1, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), berthhttp.AnswerWithin(10*time.Second),
			berthhttp.FailOpen(func(*http.Request, error) { opened++ }), berthhttp.MaxWait(time.Minute))
		answers := make(chan int, 3)
		ask := func() {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, get(t.Context(), t, "/"))
			answers <- rec.Code
		}
		store.Slow(time.Hour)
		go ask()
		<-time.After(4 * time.Second)
		go ask() // it still waits for its answer when the first has found out that Redis is away
		if code := <-answers; code != http.StatusOK || opened != 1 {
			t.Errorf("in an outage answered %d, opened %d times", code, opened)
		}
		store.Slow(0)
		want(t, client, "work", 1, 1)
		go ask()
		want(t, client, "work", 1, 2)
		if err := lease.Release(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if code := <-answers; code != http.StatusOK {
				t.Errorf("in line answered %d", code)
			}
		}
		if opened != 1 {
			t.Errorf("it opened %d times", opened)
		}
	})
}
