package main

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/examples/internal/careful"
	"github.com/berth-go/berth/examples/internal/stats"
	"github.com/berth-go/berth/examples/internal/store"
)

// job is what every worker process is told.
type job struct {
	Redis     string
	URL       string // of the API
	Processes int
	Clients   int  // goroutines of a process that call at once
	Calls     int  // by each of them
	Limit     int  // concurrent calls that the API allows
	Limited   bool // whether the processes keep to it
}

// result is what one worker process has seen.
type result struct {
	Calls stats.Durations // from the first attempt to the answer
	Sent  int             // requests
}

// work is the whole of a worker process.
func work(ctx context.Context, j job) (r result, err error) {
	redis, err := store.Open(j.Redis)
	if err != nil {
		return r, err
	}
	defer redis.Close()
	client, err := berth.New(redis.Client)
	if err != nil {
		return r, err
	}
	defer client.Close()
	caller, err := newCaller(client, j)
	if err != nil {
		return r, err
	}
	defer caller.CloseIdleConnections()
	var sent atomic.Int64
	r.Calls, err = stats.Measure(j.Clients, j.Calls, func(int) error { return call(ctx, caller, j.URL, &sent) })
	r.Sent = int(sent.Load())
	return r, err
}

// newCaller returns the HTTP client for the API, which keeps to the limit if it is told to.
// This is all that a program has to do; its calls stay as they are.
func newCaller(client *berth.Client, j job) (*http.Client, error) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = j.Clients
	if !j.Limited {
		return &http.Client{Transport: base}, nil
	}
	limited, err := berthhttp.NewTransport(client, "api", j.Limit, berthhttp.Base(base))
	return &http.Client{Transport: limited}, err
}

// call makes a call, and counts the requests in sent.
func call(ctx context.Context, caller *http.Client, url string, sent *atomic.Int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	n, err := careful.Call(caller, req, 10*time.Millisecond, time.Second, nil)
	sent.Add(int64(n))
	return err
}
