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
	"github.com/berth-go/berth/examples/internal/fleet"
	"github.com/berth-go/berth/internal/redistest"
)

func TestMain(m *testing.M) {
	fleet.Main(work) // the worker processes are this binary
	redistest.Main(m)
}

func TestNoCallIsRefused(t *testing.T) {
	t.Parallel()
	s := settings{redis: redistest.Start(t).URL(), processes: 3, clients: 6, calls: 5, limit: 4}
	server := startAPI(s.limit, 10*time.Millisecond)
	defer server.Close()
	for _, limit := range []int{0, s.limit} {
		all, seen, err := s.phase(t.Context(), server, limit)
		if err != nil {
			t.Fatal(err)
		}
		if seen.served != 90 || len(all.Calls) != 90 || all.Sent != seen.served+seen.refused {
			t.Errorf("limit %d: %d served, %d refused, %d sent, %d calls: want 90 calls", limit, seen.served, seen.refused, all.Sent, len(all.Calls))
		}
		if limit > 0 && (seen.refused > 0 || seen.peak > s.limit) {
			t.Errorf("limit %d: %d refused, %d at once", limit, seen.refused, seen.peak)
		}
	}
}

func TestProgramOnTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := run(t.Context(), &out, settings{processes: 2, clients: 3, calls: 3, limit: 2, takes: time.Millisecond})
	if err != nil || !strings.Contains(out.String(), "berthhttp") {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := run(t.Context(), &out, settings{}); err == nil {
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
	_, err := work(ctx, job{Redis: "redis://127.0.0.1:1", URL: server.URL, Clients: 2, Calls: 1, Limit: 1})
	if !errors.Is(err, berth.ErrUnreachable) || server.reset().served != 0 {
		t.Errorf("got %v", err)
	}
}

func TestOtherAnswersAreErrors(t *testing.T) {
	t.Parallel()
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	redis := redistest.Shared(t)
	if _, err := work(t.Context(), job{Redis: redis.URL(), URL: broken.URL, Clients: 1, Calls: 1, Limit: 1}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
}
