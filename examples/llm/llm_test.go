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
		j := job{Redis: redis.URL(), Way: way, Processes: 3, Greedy: 6, Small: 2, Limit: 3, Rate: 12, Tokens: 1800, Most: 300, Minute: 3 * time.Second}
		shorter := j
		shorter.Minute = 100 * time.Millisecond
		api := startAPI(shorter, 10*time.Millisecond)
		j.URL = api.URL
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
	a := &api{limit: 2, rate: 3, tokens: 100, per: time.Hour, refused: map[string]int{}}
	for i, c := range []struct {
		most int
		want bool
	}{{6, true}, {6, true}, {6, false}, {600, false}, {6, true}, {6, false}} {
		if i == 3 {
			a.now = 0 // those at work are done
		}
		if _, _, ok := a.enter("a", c.most); ok != c.want {
			t.Errorf("call %d: %v, want %v", i, ok, c.want)
		}
	}
	if _, wait, _ := a.enter("a", 6); wait < 59*time.Minute || wait > time.Hour || a.refused["a"] != 4 {
		t.Errorf("room in %v; refused %v", wait, a.refused)
	}
}

func TestProgramOnTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	j := job{Processes: 2, Greedy: 3, Small: 1, Limit: 2, Rate: 20, Tokens: 900, Most: 60, Minute: 50 * time.Millisecond}
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
	j := job{Redis: "redis://127.0.0.1:1", Way: "settled", Greedy: 1, Small: 1, Limit: 1, Rate: 1, Tokens: 1, Most: 1, Minute: time.Minute}
	api := startAPI(j, 0)
	j.URL = api.URL
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
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
	j := job{Redis: redistest.Shared(t).URL(), URL: broken.URL, Way: "settled", Greedy: 1, Small: 1, Limit: 1, Rate: 9, Tokens: 9, Most: 1, Minute: time.Minute}
	if _, err := work(t.Context(), j); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
}
