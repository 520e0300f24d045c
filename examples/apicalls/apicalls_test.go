package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) {
	program.Worker(work) // the worker processes are this binary
	redistest.Main(m)
}

func TestNoCallIsRefused(t *testing.T) {
	t.Parallel()
	server := startAPI(4, 10*time.Millisecond)
	defer server.Close()
	j := job{Redis: redistest.Start(t).URL(), URL: server.URL, Processes: 3, Clients: 6, Calls: 5, Limit: 4}
	for _, j.Limited = range []bool{false, true} {
		all, err := j.inAllProcesses(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen := server.reset()
		if seen.served != 90 || len(all.Calls) != 90 || all.Sent != seen.served+seen.refused {
			t.Errorf("limited %v: %d served, %d refused, %d sent, %d calls: want 90 calls", j.Limited, seen.served, seen.refused, all.Sent, len(all.Calls))
		}
		if j.Limited && (seen.refused > 0 || seen.peak > j.Limit) {
			t.Errorf("%d refused, %d at once", seen.refused, seen.peak)
		}
	}
}

func TestProgramOnTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := run(t.Context(), &out, job{Processes: 2, Clients: 3, Calls: 3, Limit: 2}, time.Millisecond)
	if err != nil || !strings.Contains(out.String(), "berthhttp") {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := run(t.Context(), &out, job{}, 0); err == nil {
		t.Error("numbers of 0")
	}
}

// TestNoCallWithoutRedis: a limit that cannot be asked for is not passed over.
func TestNoCallWithoutRedis(t *testing.T) {
	t.Parallel()
	server := startAPI(1, 0)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := work(ctx, job{Redis: "redis://127.0.0.1:1", URL: server.URL, Clients: 2, Calls: 1, Limit: 1, Limited: true})
	if !errors.Is(err, berth.ErrUnreachable) || server.reset().served != 0 {
		t.Errorf("got %v", err)
	}
}

func TestOtherAnswersAreErrors(t *testing.T) {
	t.Parallel()
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	redis := redistest.Shared(t)
	if _, err := work(t.Context(), job{Redis: redis.URL(), URL: broken.URL, Clients: 1, Calls: 1, Limit: 1, Limited: true}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
}
