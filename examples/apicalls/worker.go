package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthhttp"
	"github.com/berth-go/berth/examples/internal/stats"
	"github.com/berth-go/berth/examples/internal/store"
)

// job is what one worker process does.
type job struct {
	Redis   string
	URL     string
	Clients int // goroutines that call at once
	Calls   int // by each of them
	Limit   int // concurrent calls of all processes; 0: no limit
}

// result is what one worker process has seen.
type result struct {
	Calls stats.Durations // from the first attempt to the answer
	Sent  int             // requests
}

// work is the whole of a worker process.
func work(ctx context.Context, j job) (result, error) {
	rdb, client, err := store.Client(j.Redis)
	if err != nil {
		return result{}, err
	}
	defer rdb.Close()
	defer client.Close()
	caller, err := newCaller(client, j)
	if err != nil {
		return result{}, err
	}
	defer caller.http.CloseIdleConnections()
	return caller.all(ctx, j)
}

// caller calls the API.
type caller struct {
	http *http.Client
	url  string
	log  stats.Log
	sent atomic.Int64
}

// newCaller returns a caller that keeps to j.Limit, if there is one. This is all that a
// program has to do; its calls stay as they are.
func newCaller(client *berth.Client, j job) (*caller, error) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConnsPerHost = j.Clients
	c := &caller{http: &http.Client{Transport: base}, url: j.URL}
	if j.Limit > 0 {
		limited, err := berthhttp.NewTransport(client, "api", j.Limit, berthhttp.Base(base))
		if err != nil {
			return nil, err
		}
		c.http.Transport = limited
	}
	return c, nil
}

func (c *caller) all(ctx context.Context, j job) (result, error) {
	var clients errgroup.Group
	for range j.Clients {
		clients.Go(func() error {
			for range j.Calls {
				if err := c.call(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := clients.Wait()
	return result{Calls: c.log.Times(), Sent: int(c.sent.Load())}, err
}

// call repeats a call until it is not refused, with growing, random pauses, as a careful
// client does that knows nothing of the others.
func (c *caller) call(ctx context.Context) error {
	defer c.log.Since(time.Now())
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		status, err := c.once(ctx)
		switch {
		case err != nil:
			return err
		case status == http.StatusOK:
			return nil
		case status != http.StatusTooManyRequests:
			return fmt.Errorf("the API answers with status %d", status)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

func (c *caller) once(ctx context.Context) (status int, err error) {
	c.sent.Add(1)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close() // releases the permit, at the latest
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
