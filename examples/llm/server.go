package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"
)

// api is the API that is called. It works on a limited number of calls at once, and on so many in
// any time of a length, answers 429 to the others, and counts those.
type api struct {
	*httptest.Server

	limit, rate int
	per, takes  time.Duration

	mu      sync.Mutex
	now     int            // guarded by mu; calls in progress
	begun   []time.Time    // guarded by mu; when the last calls were let in, at most as many as the rate
	served  int            // guarded by mu
	refused map[string]int // guarded by mu; by tenant
}

// startAPI serves an API on a free port of the loopback interface.
func startAPI(limit, rate int, per, takes time.Duration) *api {
	a := &api{limit: limit, rate: rate, per: per, takes: takes, refused: map[string]int{}}
	a.Server = httptest.NewServer(a)
	return a
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if wait, ok := a.enter(r.Header.Get("X-Tenant")); !ok {
		w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
		http.Error(w, "too many calls", http.StatusTooManyRequests)
		return
	}
	select {
	case <-r.Context().Done():
	case <-time.After(a.takes):
	}
	// Before the answer, because the next call may begin as soon as the client has it.
	a.mu.Lock()
	a.now--
	a.served++
	a.mu.Unlock()
	fmt.Fprintln(w, `{"text": "hello"}`)
}

// enter lets a call in, or says in how long there may be room.
func (a *api) enter(tenant string) (wait time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for len(a.begun) > 0 && now.Sub(a.begun[0]) >= a.per {
		a.begun = a.begun[1:]
	}
	switch {
	case len(a.begun) == a.rate:
		wait = a.per - now.Sub(a.begun[0])
	case a.now < a.limit:
		a.now++
		a.begun = append(a.begun, now)
		return 0, true
	}
	a.refused[tenant]++
	return wait, false
}
