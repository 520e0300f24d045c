package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"
)

// api is the API that is called. It works on a limited number of calls at once, and in any time of a
// length on so many, and on calls that use so many tokens. It answers 429 to the others, and counts
// those. It knows beforehand how many tokens its answer will use; those who call it do not.
type api struct {
	*httptest.Server

	limit, rate, tokens int
	per, takes          time.Duration

	mu      sync.Mutex
	now     int            // guarded by mu; calls in progress
	all     []begun        // guarded by mu; the calls that were let in
	past    int            // guarded by mu; how many of all count no more
	used    int            // guarded by mu; tokens of the others
	served  int            // guarded by mu
	refused map[string]int // guarded by mu; by tenant
}

// begun is a call that was let in.
type begun struct {
	at     time.Time
	tokens int
}

// usage is what the API answers.
type usage struct {
	Tokens int `json:"total_tokens"`
}

// startAPI serves an API on a free port of the loopback interface.
func startAPI(j job, takes time.Duration) *api {
	a := &api{limit: j.Limit, rate: j.Rate, tokens: j.Tokens, per: j.Minute, takes: takes, refused: map[string]int{}}
	a.Server = httptest.NewServer(a)
	return a
}

// ServeHTTP implements http.Handler.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	most, _ := strconv.Atoi(r.Header.Get(mostTokens))
	tokens, wait, ok := a.enter(r.Header.Get("X-Tenant"), most)
	if !ok {
		w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
		http.Error(w, "too many calls, or tokens", http.StatusTooManyRequests)
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
	_ = json.NewEncoder(w).Encode(usage{tokens})
}

// enter lets a call in, and returns how many tokens it uses, or says in how long there may be room. An
// answer uses a sixth of the most that it may, up to five sixths, and half of it on average.
func (a *api) enter(tenant string, most int) (tokens int, wait time.Duration, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for a.past < len(a.all) && now.Sub(a.all[a.past].at) >= a.per {
		a.used -= a.all[a.past].tokens
		a.past++
	}
	tokens = most * (1 + len(a.all)%5) / 6
	switch {
	case len(a.all)-a.past == a.rate, a.used+tokens > a.tokens:
		if wait = a.per; a.past < len(a.all) {
			wait -= now.Sub(a.all[a.past].at)
		}
	case a.now < a.limit:
		a.now++
		a.used += tokens
		a.all = append(a.all, begun{now, tokens})
		return tokens, 0, true
	}
	a.refused[tenant]++
	return 0, wait, false
}

// use is how much was used of the tokens that the API allows, while calls waited: in its whole minutes
// from a time to now.
func (a *api) use(from time.Time) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	minutes := max(int(time.Since(from)/a.per), 1)
	used := 0
	for _, b := range a.all {
		if b.at.Before(from.Add(time.Duration(minutes) * a.per)) {
			used += b.tokens
		}
	}
	return float64(used) / float64(a.tokens) / float64(minutes)
}
