package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// api is the API that is called. It works on a limited number of calls at once, answers
// 429 to the others, and counts both.
type api struct {
	*httptest.Server

	limit int
	takes time.Duration

	mu sync.Mutex
	tally
}

// tally counts calls; guarded by api.mu.
type tally struct {
	now     int // calls in progress
	peak    int // most calls that were here at once, refused ones included
	served  int
	refused int
}

// startAPI serves an API on a free port of the loopback interface.
func startAPI(limit int, takes time.Duration) *api {
	a := &api{limit: limit, takes: takes}
	a.Server = httptest.NewServer(a)
	return a
}

// reset starts the count anew and returns the old one.
func (a *api) reset() tally {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.tally
	a.tally = tally{}
	return old
}

// ServeHTTP implements http.Handler. A call takes some time; one above the limit is
// refused with 429.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.peak = max(a.peak, a.now+1)
	if a.now == a.limit {
		a.refused++
		a.mu.Unlock()
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many calls at once", http.StatusTooManyRequests)
		return
	}
	a.now++
	a.mu.Unlock()
	select {
	case <-r.Context().Done():
	case <-time.After(a.takes):
	}
	// Before the answer, because the next call may begin as soon as the client has it.
	a.mu.Lock()
	a.now--
	a.served++
	a.mu.Unlock()
	fmt.Fprintln(w, `{"things": 3}`)
}
