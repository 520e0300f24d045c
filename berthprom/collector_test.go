package berthprom_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthprom"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// exporter is a Collector, and a handler that shows it.
type exporter struct {
	*testenv.Env
	handler http.Handler
}

// export starts one.
func export(e *testenv.Env, in *berthadmin.Inspector, o berthprom.Options) *exporter {
	e.Helper()
	c, err := berthprom.New(in, o)
	e.Must(err)
	e.Cleanup(c.Close)
	return serve(e, c)
}

func serve(e *testenv.Env, c prometheus.Collector) *exporter {
	e.Helper()
	registry := prometheus.NewPedanticRegistry()
	e.Must(registry.Register(c))
	return &exporter{e, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})}
}

// scrape returns the values by what stands before them, as in
// `berth_leases{berth_semaphore_name="a"}`, and how long it took.
func (x *exporter) scrape() (map[string]float64, time.Duration) {
	x.Helper()
	begun := time.Now()
	w := httptest.NewRecorder()
	x.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	took := time.Since(begun)
	if w.Code != http.StatusOK {
		x.Fatalf("status %d: %s", w.Code, w.Body)
	}
	values := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		x.Must(err)
		values[line[:at]] = v
	}
	return values, took
}

// until scrapes until ok is content: what is shown is as old as the last sample.
func (x *exporter) until(ok func(map[string]float64) bool) map[string]float64 {
	x.Helper()
	for {
		values, _ := x.scrape()
		if ok(values) {
			return values
		}
		select {
		case <-time.After(x.Tick()):
		case <-x.Ctx.Done():
			x.Fatalf("never as it should be: %v", values)
		}
	}
}

// of is a metric of a semaphore.
func of(metric, name string) string {
	return fmt.Sprintf("berth_%s{berth_semaphore_name=%q}", metric, name)
}

// rateOf is a metric of a rate.
func rateOf(metric, name, unit, window string) string {
	return fmt.Sprintf("berth_rate_%s{berth_semaphore_name=%q,unit=%q,window=%q}", metric, name, unit, window)
}

// want compares some values; those that are wanted to be -1 must not be there.
func (x *exporter) want(got, want map[string]float64) {
	x.Helper()
	for key, w := range want {
		if v, ok := got[key]; ok != (w != -1) || ok && v != w {
			x.Errorf("%s is %v (%v), want %v", key, v, ok, w)
		}
	}
}

// TestMetricsAreTheStateOfTheServer: what is held, waits, is set, and is damaged.
func TestMetricsAreTheStateOfTheServer(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		e.Hold(p.Named("a", 5, berth.MaxHold(time.Hour)), berth.Weight(3))
		e.Hold(p.Named("a", 5, berth.MaxHold(time.Hour)))
		e.Queue(p.Named("a", 5), berth.Weight(2))
		e.Must(e.Inspector.Pin(e.Ctx, "a", 4))
		e.Must(e.Inspector.Pause(e.Ctx, "b"))
		e.Must(e.Inspector.PauseFor(e.Ctx, "c", time.Hour))
		e.Release(e.Hold(p.Named("r", berth.NoLimit, berth.Rate(60, time.Hour), berth.Rate(5, time.Minute),
			berth.Rate(2, time.Second).Of("api").Burst(40)), berth.Cost(3), berth.Cost(0).Of("api")))
		key := func(name string) string { return e.Prefix + ":{" + name + "}" }
		e.Must(e.Redis.Set(e.Ctx, key("damaged"), "x", 0).Err())
		e.Must(e.Redis.HSet(e.Ctx, key("newer"), "state", "4 what comes next").Err())
		x := export(e, p.Inspector(), berthprom.Options{})
		got := x.until(func(got map[string]float64) bool {
			_, whole := got[of("lease_oldest_seconds", "a")] // since the first search has come to its end
			return got["berth_up"] == 1 && got[`berth_semaphores{state="all"}`] == 6 && whole
		})
		x.want(got, map[string]float64{
			of("permits_limit", "a"): 4, of("permits_declared", "a"): 5, of("permits_in_use", "a"): 4,
			of("leases", "a"): 2, of("requests_waiting", "a"): 1, of("pinned", "a"): 1, of("paused", "a"): 0,
			of("limit_changes_total", "a"): 0,
			of("paused", "b"):              1, of("queue_oldest_wait_seconds", "b"): -1, of("lease_oldest_seconds", "b"): -1,
			of("paused", "c"): 1, of("pause_remaining_seconds", "b"): -1,
			of("permits_in_use", "damaged"): -1, of("permits_in_use", "newer"): -1,
			rateOf("costs", "r", "", "1h"): 60, rateOf("window_seconds", "r", "", "1h"): 3600, rateOf("spent", "r", "", "1h"): 3,
			rateOf("costs", "r", "", "1m"): 5, rateOf("spent", "r", "", "1m"): 3, rateOf("costs", "r", "api", "1s"): 40, rateOf("spent", "r", "api", "1s"): 0,
			of("permits_in_use", "r"): 0, of("permits_limit", "r"): -1, of("permits_declared", "r"): -1,
			`berth_semaphores{state="contended"}`: 1, `berth_semaphores{state="paused"}`: 2, `berth_semaphores{state="pinned"}`: 1,
			`berth_semaphores{state="damaged"}`: 1, `berth_semaphores{state="newer"}`: 1,
			"berth_names_dropped": 0,
		})
		for key, most := range map[string]float64{
			of("queue_oldest_wait_seconds", "a"): 120, of("lease_oldest_seconds", "a"): 120, of("lease_ceiling_seconds", "a"): 3600, of("pause_remaining_seconds", "c"): 3700,
			"berth_sample_age_seconds": 120, "berth_sample_duration_seconds": 120, "berth_scan_duration_seconds": 120, "berth_names_age_seconds": 120,
		} {
			if v, ok := got[key]; !ok || v < 0 || v > most {
				t.Errorf("%s is %v (%v)", key, v, ok)
			}
		}
	})
}

// TestWhatHasGoneIdle holds nothing, and has no limit that anybody knew.
func TestWhatHasGoneIdle(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		held := e.Hold(e.Peer().Named("a", 5))
		x := export(e, e.Peer().Inspector(), berthprom.Options{Watch: berthwatch.Options{Names: []string{"a"}, Every: 100 * time.Millisecond}})
		x.until(func(got map[string]float64) bool { return got[of("permits_in_use", "a")] == 1 })
		e.Release(held)
		got := x.until(func(got map[string]float64) bool { return got[of("permits_in_use", "a")] == 0 })
		x.want(got, map[string]float64{
			of("leases", "a"): 0, of("permits_limit", "a"): -1, of("permits_declared", "a"): -1, of("lease_oldest_seconds", "a"): -1,
			`berth_semaphores{state="all"}`: 0,
		})
	})
}

// TestEventsAreCounted, and are absent where nothing is heard.
func TestEventsAreCounted(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		x := export(e, e.Peer().Inspector(), berthprom.Options{})
		x.until(func(got map[string]float64) bool {
			_, heard := got[`berth_events_total{event="evicted"}`]
			return heard
		})
		p := e.Peer()
		first := e.Hold(p.Sem(1))
		e.Queue(p.Sem(1))
		e.Release(first)
		got := x.until(func(got map[string]float64) bool { return got[`berth_events_total{event="handoff"}`] == 1 })
		x.want(got, map[string]float64{`berth_events_total{event="expired"}`: 0, `berth_events_total{event="too_heavy"}`: 0})

		deaf := e.Peer()
		deaf.Net.Inject(redistest.Rule{Match: redistest.Named("PSUBSCRIBE"), Fault: redistest.Reset, Times: -1})
		x = export(e, deaf.Inspector(), berthprom.Options{})
		got, _ = x.scrape()
		x.want(got, map[string]float64{"berth_up": 1, `berth_events_total{event="handoff"}`: -1})
	})
}

// TestAScrapeWaitsASecondAtMost, whatever Redis does, and tells how old what it shows is.
// After five minutes it shows nothing any more that may be wrong.
func TestAScrapeWaitsASecondAtMost(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		e.Hold(e.Peer().Named("a", 5))
		p := e.Peer()
		x := export(e, p.Inspector(), berthprom.Options{})
		hung := p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1})
		got, took := x.scrape()
		x.want(got, map[string]float64{"berth_up": 0, "berth_sample_age_seconds": -1, of("leases", "a"): -1})
		if took != time.Second {
			e.Errorf("the first scrape took %v", took)
		}
		hung.Stop()
		p.Net.CutAll()
		got = x.until(func(got map[string]float64) bool { return got["berth_up"] == 1 })
		x.want(got, map[string]float64{of("leases", "a"): 1})
		began := time.Now()
		p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1})
		for time.Since(began) < 10*time.Minute {
			e.Pass(15 * time.Second)
			got, took := x.scrape()
			away := time.Since(began).Seconds()
			if took > time.Second || got["berth_up"] != 0 || got["berth_sample_age_seconds"] < away || got["berth_sample_age_seconds"] > away+6 {
				e.Fatalf("%v s after it went, a scrape took %v: up %v, age %v", away, took, got["berth_up"], got["berth_sample_age_seconds"])
			}
			if _, shown := got[of("leases", "a")]; shown != (got["berth_sample_age_seconds"] <= 300) {
				e.Fatalf("%v s after it went: what was, is shown: %v", away, shown)
			}
		}
	})
}

// TestUpFallsWithinThreeSeconds of an outage, though the next sample is far, and rises as soon;
// while a Redis that answers late is up.
func TestUpFallsWithinThreeSeconds(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		e.Hold(e.Peer().Named("a", 5))
		for _, names := range [][]string{nil, {"a"}} {
			p := e.Peer()
			x := export(e, p.Inspector(), berthprom.Options{Watch: berthwatch.Options{Names: names, Every: time.Minute}})
			x.until(func(got map[string]float64) bool { return got["berth_up"] == 1 })
			e.Pass(20 * time.Second)
			for name, begin := range map[string]func() (end func()){
				"it refuses": func() func() { p.Net.Down(); return p.Net.Up },
				"it hangs":   func() func() { return p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1}).Stop },
			} {
				end := begin()
				e.Pass(3 * time.Second)
				got, _ := x.scrape()
				if got["berth_up"] != 0 || got["berth_sample_age_seconds"] < 3 {
					e.Errorf("%s: up is %v, and the sample %v s old", name, got["berth_up"], got["berth_sample_age_seconds"])
				}
				end()
				e.Pass(3 * time.Second)
				if got, _ = x.scrape(); got["berth_up"] != 1 {
					e.Errorf("%s: up is %v after it", name, got["berth_up"])
				}
			}
		}
	})
}

// TestUpIsNotWhatWasOnce: a silent Redis is not up when scrapes begin again, nor is one that
// nobody asks any more; and for nobody's answer no scrape waits.
func TestUpIsNotWhatWasOnce(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		e.Hold(e.Peer().Named("a", 5))
		p := e.Peer()
		c, err := berthprom.New(p.Inspector(), berthprom.Options{})
		e.Must(err)
		x := serve(e, c)
		x.until(func(got map[string]float64) bool { return got["berth_up"] == 1 })
		e.Pass(2 * time.Minute) // without a scrape
		hung := p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Times: -1})
		got, _ := x.scrape()
		x.want(got, map[string]float64{"berth_up": 0, of("leases", "a"): 1})
		hung.Stop()
		p.Net.CutAll()
		x.until(func(got map[string]float64) bool { return got["berth_up"] == 1 })
		c.Close()
		for _, want := range []float64{1, 0} {
			got, took := x.scrape()
			if x.want(got, map[string]float64{"berth_up": want}); took > 0 {
				e.Errorf("after Close a scrape took %v", took)
			}
			e.Pass(30 * time.Second)
		}
	})
}

// TestAPartOfTheNamesIsNotExported: the first that a search finds would pass for all.
func TestAPartOfTheNamesIsNotExported(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		e.Hold(e.Peer().Named("a", 5))
		p := e.Peer()
		x := export(e, p.Inspector(), berthprom.Options{})
		searching := p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Match: redistest.Named("scan"), Times: -1})
		got, _ := x.scrape()
		x.want(got, map[string]float64{`berth_semaphores{state="all"}`: -1})
		searching.Stop()
		got = x.until(func(got map[string]float64) bool { return got[of("leases", "a")] == 1 })
		x.want(got, map[string]float64{`berth_semaphores{state="all"}`: 1})
	})
}

// TestScrapesDoNotAskRedis more often than the sampler does, and that is every five seconds.
func TestScrapesDoNotAskRedis(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		e.Hold(e.Peer().Named("a", 5))
		p := e.Peer()
		x := export(e, p.Inspector(), berthprom.Options{})
		x.scrape()
		p.Net.ResetCounts()
		for range 1000 {
			if _, took := x.scrape(); took > 0 {
				e.Fatalf("a scrape waited %v", took)
			}
			e.Pass(50 * time.Millisecond)
		}
		// Ten samples in fifty seconds, of which one or two also read the leases.
		if n := p.Net.Count("EVALSHA", "EVAL"); n < 9 || n > 13 {
			e.Errorf("%d calls of the script: %v", n, p.Net.Counts())
		}
		if n := p.Net.Count("INFO"); n > 1 {
			e.Errorf("INFO %d times", n)
		}
	})
}

// TestBothKindsOfSampler: one that somebody else runs is looked at, and not ended.
func TestBothKindsOfSampler(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		e.Hold(e.Peer().Named("a", 5))
		in := e.Peer().Inspector()
		s := berthwatch.New(in, berthwatch.Options{Names: []string{"a"}})
		c, err := berthprom.NewCollector(s, in, berthprom.Options{})
		e.Must(err)
		_, err = s.Once(e.Ctx)
		e.Must(err)
		x := serve(e, c)
		got, _ := x.scrape()
		c.Close()
		x.want(got, map[string]float64{
			"berth_up": 1, of("leases", "a"): 1, of("lease_oldest_seconds", "a"): -1,
			"berth_redis_round_trip_seconds_count": 1, `berth_redis_round_trip_seconds_bucket{le="0.25"}`: 1,
		})
	})
}

// TestHostileNamesDoNotBreakAScrape: those that berth would refuse are not looked at, and of
// the others each is a label.
func TestHostileNamesDoNotBreakAScrape(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		for _, name := range []string{"\xff\xfe", "a\nb", "", " ", "{", "x}y", strings.Repeat("x", 5000), "\u202e"} {
			e.Must(e.Redis.HSet(e.Ctx, e.Prefix+":{"+name+"}", "state", "3 1 -1 1 0 0 0 0 0 0 0 0 0 0 0 -").Err())
		}
		hostile := []string{`a"b\c`, `" 1`, "名前", "_other", "api/*", `le="+Inf"`, "# HELP x"}
		for _, name := range hostile {
			e.Must(e.Inspector.Pin(e.Ctx, name, 3))
		}
		p := e.Peer()
		p.Redis.AddHook(strangeServer{})
		x := export(e, p.Inspector(), berthprom.Options{})
		info := "berth_redis_info{policy=\"\uFFFDx\",role=\"\\\"\",version=\"redis \uFFFD\"}"
		got := x.until(func(got map[string]float64) bool {
			return got[`berth_semaphores{state="pinned"}`] == float64(len(hostile)) && got[info] == 1
		})
		for code, n := range map[string]float64{"OOM": 1, "READONLY": 2, "MISCONF": 3, "NOREPLICAS": 0} {
			x.want(got, map[string]float64{`berth_redis_refusals_total{error_type="` + code + `"}`: n})
		}
		for _, name := range hostile {
			label := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)
			x.want(got, map[string]float64{`berth_permits_limit{berth_semaphore_name="` + label + `"}`: 3})
		}
	})
}

// strangeServer answers INFO with anything.
type strangeServer struct{}

func (strangeServer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (strangeServer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (strangeServer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		info, ok := cmd.(*redis.StringCmd)
		if !ok || cmd.Name() != "info" {
			return next(ctx, cmd)
		}
		info.SetVal("redis_version:\xff\r\nmaxmemory_policy:\xfe\xfex\r\nrole:\"\r\n" +
			"errorstat_OOM:count=1\r\nerrorstat_READONLY:count=2\r\nerrorstat_MISCONF:count=3\r\nerrorstat_NOREPLICAS:count=x\r\n")
		return nil
	}
}

// TestManyNamesMakeFewSeries: the busiest have their own, and nothing is left out of the sums.
func TestManyNamesMakeFewSeries(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		for i := range 50 {
			e.Must(e.Inspector.Pin(e.Ctx, fmt.Sprint("n", i), 2))
			e.Hold(p.Named(fmt.Sprint("api/", i, "/x"), 1))
		}
		e.Hold(p.Named("n30", 2))
		e.Hold(p.Named("n40", 2), berth.Weight(2))
		e.Queue(p.Named("n40", 2))
		x := export(e, p.Inspector(), berthprom.Options{Names: 3, Group: []string{"api/*", "*/x"}})
		got, _ := x.scrape()
		x.want(got, map[string]float64{
			of("permits_limit", "api/*"): 50, of("permits_in_use", "api/*"): 50, of("leases", "api/*"): 50,
			of("permits_in_use", "n30"): 1, of("permits_in_use", "n40"): 2,
			of("permits_limit", "_other"): 96, of("permits_in_use", "_other"): 0, of("pinned", "_other"): 1,
			`berth_semaphores{state="all"}`: 100,
		})
		n := 0
		for key := range got {
			if strings.HasPrefix(key, "berth_permits_in_use{") {
				n++
			}
		}
		if n != 4 {
			e.Errorf("%d series: %v", n, got)
		}
	})
}

// TestWhatCannotBeIsRefused with ErrInvalid.
func TestWhatCannotBeIsRefused(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		for _, o := range []berthprom.Options{{Group: []string{"a", "["}}, {Names: -1}, {Watch: berthwatch.Options{Names: []string{"a", "{b}"}}}} {
			if _, err := berthprom.New(e.Peer().Inspector(), o); !errors.Is(err, berth.ErrInvalid) {
				e.Errorf("%+v: %v", o, err)
			}
		}
	})
}

// TestAUserWhoOnlyLooksIsEnough: without the right to INFO, what that tells is missing.
func TestAUserWhoOnlyLooksIsEnough(t *testing.T) {
	testenv.OwnServer(t, nil, func(e *testenv.Env) {
		e.Hold(e.Peer().Named("a", 5))
		rights := append([]string{"on", ">secret"}, redistest.RightsOf(t, "..", "viewer")...)
		e.Must(e.Redis.ACLSetUser(e.Ctx, "viewer", rights...).Err())
		e.Options.Username, e.Options.Password = "viewer", "secret"
		x := export(e, e.Peer().Inspector(), berthprom.Options{})
		got := x.until(func(got map[string]float64) bool {
			_, heard := got[`berth_events_total{event="handoff"}`]
			return heard && got[of("leases", "a")] == 1 && got["berth_up"] == 1
		})
		for key := range got {
			if strings.HasPrefix(key, "berth_redis_info") {
				t.Errorf("%s without the right to ask", key)
			}
		}
		// Who may not even search for names is told so, and not that there are none.
		e.Must(e.Redis.ACLSetUser(e.Ctx, "viewer", "-scan").Err())
		x = export(e, e.Peer().Inspector(), berthprom.Options{})
		x.until(func(got map[string]float64) bool { return got["berth_up"] == 0 && got["berth_sample_age_seconds"] > 0 })
	})
}
