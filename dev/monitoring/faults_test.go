package monitoring_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// inSeconds is a copy of the alerts that is as quick as a test. It looks back for a second in place
// of each 20, in which there are several scrapes even on a busy machine, and asks for less than that
// to last. Days and hours are some seconds.
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
	text = strings.NewReplacer(
		"[1d]", "[10s]", "[6h]", "[5s]", "offset 1d", "offset 10s", "offset 10m", "offset 30s", "for: 1h", "for: 2s",
		"> 300\n", "> 3\n", "> 1800\n", "> 2\n", "_seconds) > 60\n", "_seconds) > 2\n",
	).Replace(text)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// plant has a real Prometheus look at a real Redis, in which body plants faults. every begins a program
// that does something again and again.
func plant(t *testing.T, config []string, body func(e *testenv.Env, s *server, hooks berth.Hooks, every func(func(ctx context.Context)))) {
	testenv.OwnServer(t, config, func(e *testenv.Env) {
		registry, hooks := watched(e, time.Second/4)
		target := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		defer target.Close()
		ctx, stop := context.WithCancel(e.Ctx)
		var programs sync.WaitGroup
		defer programs.Wait()
		defer stop()
		body(e, scraping(t, inSeconds(t), target.Listener.Addr().String()), hooks, func(ask func(context.Context)) {
			programs.Go(func() {
				for tick := time.Tick(pace); ctx.Err() == nil; <-tick {
					ask(ctx)
				}
			})
		})
	})
}

// pace is how often programs do something.
const pace = 250 * time.Millisecond

// TestAlertsFireByTheirFaults: holders hang while programs have deadlines, or try; then Redis
// refuses, because its memory is full; and then it stands still again and again.
func TestAlertsFireByTheirFaults(t *testing.T) {
	plant(t, nil, func(e *testenv.Env, s *server, hooks berth.Hooks, every func(func(context.Context))) {
		p := e.Peer(berth.Hook(hooks))
		deadlines, tries := p.Named("deadlines", 1), p.Named("tries", 1)
		e.Hold(deadlines)
		e.Hold(tries)
		every(func(ctx context.Context) {
			brief, cancel := context.WithTimeout(ctx, pace/2)
			defer cancel()
			_, _ = deadlines.Acquire(brief)
		})
		every(func(ctx context.Context) { _, _ = tries.TryAcquire(ctx) })
		s.fires(`alertname="BerthNothingGranted", berth_semaphore_name="deadlines", severity="page"`)
		s.fires(`alertname="BerthTurnedAway", berth_semaphore_name="tries"`)
		s.fires(`alertname="BerthSaturated", berth_semaphore_name="deadlines"`) // waiters come and go
		if s.firing(`alertname="BerthRedisRefuses"`) {
			t.Error("Redis refuses nothing yet")
		}

		e.Must(e.Redis.ConfigSet(e.Ctx, "maxmemory", "1").Err())
		every(func(ctx context.Context) { _, _ = p.Named("new", 1).TryAcquire(ctx) })
		s.fires(`alertname="BerthRedisRefuses", error_type="refused_by_redis", severity="page"`)

		defer e.Server.Falter(400*time.Millisecond, 100*time.Millisecond)()
		s.fires(`alertname="BerthRedisSlow", severity="ticket"`)
	})
}

// TestOperatorsAlertsFireByTheirFaults: what hangs, what was forgotten, what programs get wrong; and
// then Redis is out of reach of one program, and of all.
func TestOperatorsAlertsFireByTheirFaults(t *testing.T) {
	plant(t, []string{"maxmemory-policy allkeys-lru"}, func(e *testenv.Env, s *server, hooks berth.Hooks, every func(func(context.Context))) {
		p, lonely := e.Peer(berth.Hook(hooks)), e.Peer(berth.Hook(hooks))
		for _, name := range []string{"hangs", "frozen", "paused"} {
			e.Hold(p.Named(name, 1), berth.MaxHold(4*time.Minute))
			e.Queue(p.Named(name, 1))
		}
		e.Must(e.Inspector.Pin(e.Ctx, "frozen", 0))
		e.Must(e.Inspector.Pause(e.Ctx, "paused"))
		s.fires(`alertname="BerthQueueOld", berth_semaphore_name="hangs", severity="page"`)
		s.fires(`alertname="BerthHeldLong", berth_semaphore_name="hangs"`)
		s.fires(`alertname="BerthFrozen", berth_semaphore_name="frozen"`)
		s.fires(`alertname="BerthPaused", berth_semaphore_name="paused"`)
		for _, name := range []string{"frozen", "paused"} {
			s.fires(fmt.Sprintf(`alertname="BerthForgotten", berth_semaphore_name=%q`, name))
			if s.firing(fmt.Sprintf(`alertname="BerthQueueOld", berth_semaphore_name=%q`, name)) {
				t.Errorf("%s: an operator wants it to wait", name)
			}
		}
		s.fires(`alertname="BerthEvicts", policy="allkeys-lru"`)

		e.Hold(p.Named("flaps", 2)) // of one that is idle nothing is kept
		limit := 2
		every(func(ctx context.Context) {
			limit = 5 - limit
			if lease, err := p.Named("flaps", limit).TryAcquire(ctx); err == nil {
				_ = lease.Release()
			}
		})
		s.fires(`alertname="BerthLimitFlapping", berth_semaphore_name="flaps"`)
		e.Must(e.Redis.Set(e.Ctx, e.Prefix+":{damaged}", "foreign", 0).Err())
		s.fires(`alertname="BerthDamaged"`)

		for range 40 {
			e.Hold(lonely.Named("dead", 100, berth.TTL(time.Second)))
		}
		lonely.Net.Down()
		every(func(ctx context.Context) { _, _ = lonely.Named("dead", 100).TryAcquire(ctx) })
		every(func(ctx context.Context) { // whoever comes next takes out what has expired
			if lease, err := p.Named("dead", 100).TryAcquire(ctx); err == nil {
				_ = lease.Release()
			}
		})
		s.fires(`alertname="BerthLeasesLost", berth_semaphore_name="dead", error_type="untrusted"`)
		s.fires(`alertname="BerthDeadHolders"`)
		s.fires(`alertname="BerthRedisAway", severity="page"`)

		e.Server.Stop()
		s.fires(`alertname="BerthExporterDown", severity="page"`)
		s.fires(`alertname="BerthStale"`)
		e.Server.Cont()
		s.fires(`alertname="BerthInterrupted"`)
	})
}

// TestEachAlertIsFiredByItsFault in one of these tests.
func TestEachAlertIsFiredByItsFault(t *testing.T) {
	t.Parallel()
	here := read(t, "faults_test.go")
	for _, r := range rules(t) {
		if r.Alert != "" && !strings.Contains(here, `s.fires(`+"`"+`alertname="`+r.Alert+`"`) && !strings.Contains(here, `Sprintf(`+"`"+`alertname="`+r.Alert+`"`) {
			t.Errorf("%s: no test plants its fault", r.Alert)
		}
	}
}

// fires waits for an alert.
func (s *server) fires(labels string) {
	s.Helper()
	s.until(nil, func() bool { return s.firing(labels) })
}

func (s *server) firing(labels string) bool {
	return s.value(fmt.Sprintf(`ALERTS{%s, alertstate="firing"}`, labels)) == "1"
}
