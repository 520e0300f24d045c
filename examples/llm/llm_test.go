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

// TestNoCallIsRefused by an API whose window is shorter than the one that the processes keep to, by
// more than a busy machine takes from a grant to a call.
func TestNoCallIsRefused(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for _, way := range ways {
		api := startAPI(3, 12, 100*time.Millisecond, 10*time.Millisecond)
		j := job{Redis: redis.URL(), URL: api.URL, Way: way, Processes: 3, Greedy: 6, Small: 2, Limit: 3, Rate: 12, Minute: 3 * time.Second}
		waits, err := j.inAllProcesses(t.Context())
		api.Close()
		if err != nil {
			t.Fatal(err)
		}
		if g, s := len(waits["greedy"]), len(waits["small-1"])+len(waits["small-2"]); g != 18 || s != 12 || api.served != 30 {
			t.Errorf("%s: %d and %d calls, %d served: want 18, 12 and 30", way, g, s, api.served)
		}
		if way != "no limit" && len(api.refused) > 0 {
			t.Errorf("%s: refused: %v", way, api.refused)
		}
	}
}

// TestAPIRefusesMoreThanItAllows, at once and in its window.
func TestAPIRefusesMoreThanItAllows(t *testing.T) {
	t.Parallel()
	a := &api{limit: 2, rate: 3, per: time.Hour, refused: map[string]int{}}
	for i, want := range []bool{true, true, false, true, false} {
		if i == 3 {
			a.now = 0 // those at work are done
		}
		if _, ok := a.enter("a"); ok != want {
			t.Errorf("call %d: %v, want %v", i, ok, want)
		}
	}
	if wait, _ := a.enter("a"); wait < 59*time.Minute || wait > time.Hour || a.refused["a"] != 3 {
		t.Errorf("room in %v; refused %v", wait, a.refused)
	}
}

func TestProgramOnTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	j := job{Processes: 2, Greedy: 3, Small: 1, Limit: 2, Rate: 20, Minute: 50 * time.Millisecond}
	if err := run(t.Context(), &out, j, time.Millisecond); err != nil || strings.Count(out.String(), "small-2") != len(ways) {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := run(t.Context(), &out, job{}, 0); err == nil {
		t.Error("numbers of 0")
	}
}

// TestNoCallWithoutRedis: a limit that cannot be asked for is not passed over.
func TestNoCallWithoutRedis(t *testing.T) {
	t.Parallel()
	api := startAPI(1, 1, time.Minute, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j := job{Redis: "redis://127.0.0.1:1", URL: api.URL, Way: "one queue", Greedy: 1, Small: 1, Limit: 1, Rate: 1, Minute: time.Minute}
	_, err := work(ctx, j)
	api.Close()
	if !errors.Is(err, berth.ErrUnreachable) || api.served != 0 {
		t.Errorf("got %v", err)
	}
}

func TestOtherAnswersAreErrors(t *testing.T) {
	t.Parallel()
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	j := job{Redis: redistest.Shared(t).URL(), URL: broken.URL, Way: "one queue", Greedy: 1, Small: 1, Limit: 1, Rate: 9, Minute: time.Minute}
	if _, err := work(t.Context(), j); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
}
