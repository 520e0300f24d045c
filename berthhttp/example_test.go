package berthhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/berthtest"
)

// A client whose requests to each host wait for one of two permits, which all
// processes of the fleet share. berthtest stands in for Redis.
func Example() {
	store := berthtest.Start()
	defer store.Close()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer api.Close()

	client := store.Client()
	transport, err := berthhttp.NewTransport(client, "api", 2) // 2 at once for each host
	if err != nil {
		panic(err)
	}
	calls := &http.Client{Transport: transport, Timeout: time.Minute} // the wait included

	resp, err := calls.Get(api.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close() // gives the permit back, if reading to the end has not
	text, err := io.ReadAll(resp.Body)
	fmt.Println(string(text), err)
	calls.CloseIdleConnections()
	// Output: hello <nil>
}

// Reports are expensive: each tenant gets one at a time, on all replicas together.
// A request that comes meanwhile is told when to come back.
func ExampleNewHandler() {
	store := berthtest.Start()
	defer store.Close()
	working, finish := make(chan bool), make(chan bool)
	reports := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		working <- true
		<-finish
		fmt.Fprint(w, "report")
	})

	client := store.Client()
	limited, err := berthhttp.NewHandler(client, "reports", 1, reports,
		berthhttp.Key(func(r *http.Request) string { return r.Header.Get("X-Tenant") }),
		berthhttp.MaxWait(0),
		berthhttp.MaxHold(10*time.Minute),
		berthhttp.AnswerWithin(5*time.Second))
	if err != nil {
		panic(err)
	}

	request := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/reports/2026", nil)
		r.Header.Set("X-Tenant", "acme")
		w := httptest.NewRecorder()
		limited.ServeHTTP(w, r)
		return w
	}
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- request() }()
	<-working
	second := request()
	fmt.Println(second.Code, second.Header().Get("Retry-After") != "")
	finish <- true
	fmt.Println((<-first).Code)
	// Output:
	// 429 true
	// 200
}

// A full queue is a *berth.BusyError below http.Client's error.
func ExampleRefusedError() {
	store := berthtest.Start()
	defer store.Close()
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer api.Close()

	transport, err := berthhttp.NewTransport(store.Client(), "api", 1,
		berthhttp.Key(nil), berthhttp.LeaseOptions(berth.QueueLimit(0)))
	if err != nil {
		panic(err)
	}
	client := &http.Client{Transport: transport}
	sem, err := store.Client().Semaphore("api", 1, berth.TTL(time.Hour)) // another process has the permit
	if err != nil {
		panic(err)
	}
	lease, err := sem.Acquire(context.Background())
	if err != nil {
		panic(err)
	}
	defer lease.Release()

	_, err = client.Get(api.URL) //nolint:bodyclose // there is no response
	var refused *berthhttp.RefusedError
	var busy *berth.BusyError
	if errors.As(err, &refused) && errors.As(err, &busy) {
		fmt.Printf("%s: %d of %d in use, try again in %v\n", refused.Name, busy.InUse, busy.Limit, refused.RetryAfter)
	}
	// Output: api: 1 of 1 in use, try again in 1m0s
}

// Each tenant has 2 calls at once, and all together have 20 at once and 60 per minute: narrow first,
// wide last. A request that waits for its tenant holds nothing that others need.
func ExampleAnd() {
	store := berthtest.Start()
	defer store.Close()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	defer model.Close()

	client := store.Client()
	transport, err := berthhttp.NewTransport(client, "llm/tenant", 2, // 2 at once for each tenant
		berthhttp.Key(func(r *http.Request) string { return r.Header.Get("X-Tenant") }),
		berthhttp.And("llm", 20, // and 20 at once, 60 per minute, for all
			berthhttp.Rate(60, time.Minute),
			berthhttp.ObeyRetryAfter(time.Minute)))
	if err != nil {
		panic(err)
	}
	calls := &http.Client{Transport: transport, Timeout: time.Minute} // the wait included

	req, err := http.NewRequest(http.MethodGet, model.URL, nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("X-Tenant", "acme")
	resp, err := calls.Do(req)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fmt.Println(string(text), err)
	// Output: hello <nil>
}

// What a request costs is an estimate until its answer has been read.
func ExampleSettle() {
	store := berthtest.Start()
	defer store.Close()
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello you") }))
	defer model.Close()
	estimate := func(r *http.Request) int { return 1000 + int(r.ContentLength)/4 }
	used := func(text []byte) int { return len(strings.Fields(string(text))) }

	client := store.Client()
	transport, err := berthhttp.NewTransport(client, "llm", 20, berthhttp.Key(nil),
		berthhttp.Rate(60, time.Minute), // requests
		berthhttp.Rate(90_000, time.Minute).Of("tokens"),
		berthhttp.Cost(estimate).Of("tokens")) // a func(*http.Request) int
	if err != nil {
		panic(err)
	}
	calls := &http.Client{Transport: transport, Timeout: time.Minute} // the wait included

	resp, err := calls.Get(model.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(err)
	}
	err = berthhttp.Settle(resp.Request.Context(), used(text), "tokens")
	fmt.Println(string(text), err)
	// Output: hello you <nil>
}
