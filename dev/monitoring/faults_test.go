package monitoring_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// inSeconds is a copy of the alerts that is as quick as a test. It looks back for a second in place
// of each 20, in which there are several scrapes even on a busy machine, and asks for less than that
// to last.
func inSeconds(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "alerts.yaml")
	text := regexp.MustCompile(`(\[|for: )(\d+)m\b`).ReplaceAllStringFunc(read(t, alertsFile), func(span string) string {
		var minutes int
		if _, err := fmt.Sscanf(span, "[%dm", &minutes); err == nil {
			return fmt.Sprintf("[%ds", 3*minutes)
		}
		_, _ = fmt.Sscanf(span, "for: %dm", &minutes)
		return fmt.Sprintf("for: %dms", 300*minutes)
	})
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAlertsFireByTheirFaults: holders hang while programs have deadlines, or try; then Redis
// refuses, because its memory is full; and then it stands still again and again. A real Prometheus looks at a real Redis.
func TestAlertsFireByTheirFaults(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		registry, hooks := watched(e, time.Second/4)
		target := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		defer target.Close()
		s := scraping(t, inSeconds(t), target.Listener.Addr().String())

		p := e.Peer(berth.Hook(hooks))
		const pace = 250 * time.Millisecond
		ctx, stop := context.WithCancel(e.Ctx)
		var programs sync.WaitGroup
		defer programs.Wait()
		defer stop()
		every := func(ask func()) {
			programs.Go(func() {
				for tick := time.Tick(pace); ctx.Err() == nil; <-tick {
					ask()
				}
			})
		}
		deadlines, tries := p.Named("deadlines", 1), p.Named("tries", 1)
		e.Hold(deadlines)
		e.Hold(tries)
		every(func() {
			brief, cancel := context.WithTimeout(ctx, pace/2)
			defer cancel()
			_, _ = deadlines.Acquire(brief)
		})
		every(func() { _, _ = tries.TryAcquire(ctx) })
		s.fires(`alertname="BerthNothingGranted", berth_semaphore_name="deadlines", severity="page"`)
		s.fires(`alertname="BerthTurnedAway", berth_semaphore_name="tries"`)
		s.fires(`alertname="BerthSaturated", berth_semaphore_name="deadlines"`) // waiters come and go
		if s.firing(`alertname="BerthRedisRefuses"`) {
			t.Error("Redis refuses nothing yet")
		}

		e.Must(e.Redis.ConfigSet(e.Ctx, "maxmemory", "1").Err())
		every(func() { _, _ = p.Named("new", 1).TryAcquire(ctx) })
		s.fires(`alertname="BerthRedisRefuses", error_type="refused_by_redis", severity="page"`)

		defer e.Server.Falter(400*time.Millisecond, 100*time.Millisecond)()
		s.fires(`alertname="BerthRedisSlow", severity="ticket"`)
	})
}

// fires waits for an alert.
func (s *server) fires(labels string) {
	s.Helper()
	s.until(nil, func() bool { return s.firing(labels) })
}

func (s *server) firing(labels string) bool {
	return s.value(fmt.Sprintf(`ALERTS{%s, alertstate="firing"}`, labels)) == "1"
}
