package berthweb_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestRedisGoesAndComesBack: the last picture stays, and says how old it is; JSON says 503.
func TestRedisGoesAndComesBack(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		p := e.Peer()
		w := open(e, p, nil)
		e.Must(e.Inspector.Pin(e.Ctx, "api", 3))
		w.get("/s?name=api")
		p.Net.Down()
		for range 20 { // somebody keeps looking
			e.Pass(2 * time.Second)
			w.do(request(http.MethodGet, "/s?name=api", ""))
			w.do(request(http.MethodGet, "/", ""))
		}
		begun := time.Now()
		w.wants(w.get("/"), ">api<", `<p class="stale">As of `, "ago: ")
		w.wants(w.get("/s?name=api"), "0 of 3", `<p class="stale">As of `)
		for _, target := range []string{"/api/v1/semaphores", "/api/v1/semaphore?name=api", "/api/v1/history?name=api", "/readyz", "/api/v1/audit"} {
			if rec := w.do(request(http.MethodGet, target, "")); rec.Code != http.StatusServiceUnavailable {
				t.Errorf("%s: status %d: %s", target, rec.Code, rec.Body)
			}
		}
		if rec := w.order("pause", `{"name":"api"}`); rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "unreachable") {
			t.Errorf("a change: %d %s", rec.Code, rec.Body)
		}
		if d := time.Since(begun); d > 30*time.Second {
			t.Errorf("the answers took %v", d)
		}
		w.get("/healthz")
		p.Net.Up()
		e.Pass(10 * time.Second)
		w.get("/s?name=api")
		e.Pass(10 * time.Second)
		w.lacks(w.get("/s?name=api"), `<p class="stale">`)
		w.lacks(w.get("/"), `<p class="stale">`)
	})
}

// slow is a hook after which every call takes that long.
type slow struct{ atomic.Int64 }

func (s *slow) wait() { <-time.After(time.Duration(s.Load())) }

func (s *slow) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.wait()
		return next(ctx, cmd)
	}
}

func (s *slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.wait()
		return next(ctx, cmds)
	}
}

// TestWhatNobodyLookedAtIsNotTheAnswer: where Redis is slow when somebody looks again, pages say
// how old what they show is, and JSON says 503 until there is an answer.
func TestWhatNobodyLookedAtIsNotTheAnswer(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p, delay := e.Peer(), new(slow)
		p.Redis.AddHook(delay)
		w := open(e, p, nil)
		e.Hold(e.Peer().Named("api", 3))
		for target, c := range map[string]struct {
			late time.Duration
			code string
		}{
			"/api/v1/semaphores":                  {1300 * time.Millisecond, "not_yet"},
			"/api/v1/semaphore?name=api":          {1300 * time.Millisecond, "not_yet"},
			"/api/v1/history?name=api&minutes=60": {2500 * time.Millisecond, "unreachable"},
		} {
			delay.Store(0)
			w.wants(w.get(target), `"in_use": 1`)
			e.Pass(3 * time.Minute) // nobody looks
			delay.Store(int64(c.late))
			rec := w.do(request(http.MethodGet, target, ""))
			if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), c.code) {
				e.Errorf("%s: status %d: %s", target, rec.Code, rec.Body)
			}
			e.Pass(5 * time.Second)
			w.wants(w.get(target), `"in_use": 1`)
		}
		e.Pass(3 * time.Minute)
		delay.Store(int64(2500 * time.Millisecond))
		w.wants(w.get("/"), `<p class="stale">As of `)
	})
}

// slowPing is slow for a PING: a wait in what begins a connection would be one under a lock of the
// client, in which a bubble's time stands still.
type slowPing struct{ slow }

func (s *slowPing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "ping" {
			s.wait()
		}
		return next(ctx, cmd)
	}
}

func (*slowPing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestSlowRedisIsShown on the list, and above a semaphore.
func TestSlowRedisIsShown(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p, delay := e.Peer(), new(slowPing)
		p.Redis.AddHook(delay)
		w := open(e, p, nil)
		e.Hold(e.Peer().Named("api", 3))
		delay.Store(int64(10 * time.Millisecond))
		look := func() {
			for range 4 {
				e.Pass(time.Second)
				w.get("/")
			}
		}
		look()
		w.wants(w.get("/"), "<dt>Redis answers in</dt><dd>10 ms</dd>")
		w.lacks(w.get("/"), `class="slow"`)
		delay.Store(int64(300 * time.Millisecond))
		look()
		const says = `<p class="slow">Redis answers in `
		w.wants(w.get("/"), says, ", at most 300 ms ")
		w.wants(w.get("/s?name=api"), says)
		w.wants(w.get("/api/v1/semaphores"), `"round_trip_most_ms": 300`)
	})
}

// TestRedisWasNeverThere: that is an error, and no empty list.
func TestRedisWasNeverThere(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		t := e.T
		p := e.Peer()
		p.Net.Down()
		w := open(e, p, nil)
		for range 4 {
			w.do(request(http.MethodGet, "/", ""))
		}
		for _, target := range []string{"/", "/s?name=api"} {
			rec := w.do(request(http.MethodGet, target, ""))
			if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "Nothing is known yet") || strings.Contains(rec.Body.String(), "No semaphore is in use") {
				t.Errorf("%s: %d %s", target, rec.Code, rec.Body)
			}
		}
	})
}
