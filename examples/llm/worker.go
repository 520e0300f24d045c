package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/examples/internal/careful"
	"github.com/berth-go/berth/examples/internal/stats"
	"github.com/berth-go/berth/examples/internal/store"
)

// job is what every worker process is told.
type job struct {
	Redis         string
	URL           string // of the API
	Way           string // one of ways
	Processes     int
	Greedy, Small int // calls of a tenant
	Limit, Rate   int // calls that the API allows, at once and in a Minute
	Tokens        int // that it allows in a Minute
	Most          int // tokens that a call may use
	Minute        time.Duration
}

// mostTokens is the header that bounds the tokens of an answer.
const mostTokens = "X-Most-Tokens"

// work is the whole of a worker process. It returns how long the calls of each tenant took, from
// the first attempt to the answer.
func work(ctx context.Context, j job) (map[string]stats.Durations, error) {
	redis, err := store.Open(j.Redis)
	if err != nil {
		return nil, err
	}
	defer redis.Close()
	client, err := berth.New(redis.Client)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	caller, err := newCaller(client, j)
	if err != nil {
		return nil, err
	}
	defer caller.CloseIdleConnections()
	var mu sync.Mutex
	waits := map[string]stats.Durations{}
	var all errgroup.Group
	for _, tenant := range tenants {
		clients, calls := 1, j.Small
		if tenant == "greedy" {
			clients, calls = j.Greedy, 1
		}
		all.Go(func() error {
			took, err := stats.Measure(clients, calls, func(int) error { return j.call(ctx, caller, tenant) })
			mu.Lock()
			defer mu.Unlock()
			waits[tenant] = took
			return err
		})
	}
	return waits, all.Wait()
}

// newCaller returns the HTTP client for the API, which keeps to what the API allows if it is told
// to. This is all that a program has to do; its calls stay as they are.
func newCaller(client *berth.Client, j job) (*http.Client, error) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = j.Limit
	if j.Way == "no limit" {
		return &http.Client{Transport: base}, nil
	}
	// The time from a grant to the API differs, so the rates have a little longer than the API asks.
	minute := j.Minute + j.Minute/20
	opts := []berthhttp.Option{
		berthhttp.Key(nil),
		berthhttp.Rate(j.Rate, minute),
		berthhttp.Rate(j.Tokens, minute).Of("tokens"),
		berthhttp.Cost(estimate).Of("tokens"),
		berthhttp.ObeyRetryAfter(j.Minute),
		berthhttp.Base(base),
	}
	if j.Way == "tenants" {
		opts = append(opts, berthhttp.Tenant(berthhttp.ByHeader("X-Tenant")))
	}
	limited, err := berthhttp.NewTransport(client, "llm "+j.Way, j.Limit, opts...)
	return &http.Client{Transport: limited}, err
}

// estimate is what a request costs at most, in tokens.
func estimate(r *http.Request) int {
	n, _ := strconv.Atoi(r.Header.Get(mostTokens))
	return n
}

// call makes a call for a tenant.
func (j job) call(ctx context.Context, caller *http.Client, tenant string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.URL, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("X-Tenant", tenant)
	req.Header.Set(mostTokens, strconv.Itoa(j.Most))
	var read func(*http.Response) error
	if j.Way == "settled" || j.Way == "tenants" {
		read = settle
	}
	_, err = careful.Call(caller, req, 50*time.Millisecond, 2*time.Second, read)
	return err
}

// settle says what an answer has really cost: what it tells, and nothing if it is a refusal.
func settle(resp *http.Response) error {
	var used usage
	if resp.StatusCode == http.StatusOK {
		if err := json.NewDecoder(resp.Body).Decode(&used); err != nil {
			return err
		}
	}
	return berthhttp.Settle(resp.Request.Context(), used.Tokens, "tokens")
}
