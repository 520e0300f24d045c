package monitoring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthotel"
	"github.com/berth-go/berth/berthprom"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// panel is one of the dashboard.
type panel struct {
	ID                       int
	Title, Description, Type string
	Datasource               struct{ Type, UID string }
	GridPos                  struct{ H, W, X, Y int }
	Targets                  []struct{ RefID, Expr string }
}

type dashboard struct {
	Panels     []panel
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

func grafana(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, boardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTheDashboardIsWhole: twelve panels that do not cover each other, each with a text and
// a query of the data source that is chosen.
func TestTheDashboardIsWhole(t *testing.T) {
	t.Parallel()
	d := grafana(t)
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	if !slices.Equal(variables, []string{"datasource", "job", "semaphore"}) || len(d.Panels) != 16 {
		t.Errorf("%d panels, variables %v", len(d.Panels), variables)
	}
	ids, places := map[int]bool{}, map[string]bool{}
	for _, p := range d.Panels {
		place := fmt.Sprint(p.GridPos.X, ",", p.GridPos.Y)
		if ids[p.ID] || places[place] || p.GridPos.W != 8 || p.GridPos.H != 8 || p.GridPos.X%8+p.GridPos.Y%8 != 0 {
			t.Errorf("%s: id %d, place %+v", p.Title, p.ID, p.GridPos)
		}
		ids[p.ID], places[place] = true, true
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %d: %+v", p.ID, p)
		}
	}
}

// queries are those of the dashboard and of the rules, as Prometheus gets them.
func queries(t *testing.T) (all []string) {
	t.Helper()
	chosen := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$semaphore", ".*")
	d := grafana(t)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, chosen.Replace(target.Expr))
		}
	}
	for _, v := range d.Templating.List {
		if m := regexp.MustCompile(`^label_values\((.*), \w+\)$`).FindStringSubmatch(v.Definition); m != nil {
			all = append(all, chosen.Replace(m[1]))
		} else if v.Type == "query" {
			t.Errorf("variable %s: %q", v.Name, v.Definition)
		}
	}
	for _, r := range rules(t) {
		all = append(all, r.Expr)
	}
	if len(all) < 30 {
		t.Fatalf("%d queries: some were not found", len(all))
	}
	return all
}

// TestQueriesAreWhatPrometheusTakes.
func TestQueriesAreWhatPrometheusTakes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("groups:\n- name: all\n  rules:\n")
	for i, q := range queries(t) {
		quoted, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "  - {record: %q, expr: %s}\n", fmt.Sprint("q", i), quoted)
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, "", "check", "rules", file); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestQueriesAskForWhatIsExported: each metric, each label, and each value that a label is
// compared with is one that berthprom or berthotel exports.
func TestQueriesAskForWhatIsExported(t *testing.T) {
	t.Parallel()
	x := exported(testenv.Shared(t))
	for _, r := range rules(t) {
		if r.Record != "" {
			x.metrics[r.Record] = true
		}
	}
	for _, q := range queries(t) {
		for _, name := range metricsOf(q) {
			if !x.metrics[name] {
				t.Errorf("nobody exports %s, which is in\n%s", name, q)
			}
		}
		for _, m := range regexp.MustCompile(`(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"`).FindAllStringSubmatch(q, -1) {
			if x.values[m[1]] == nil || m[2] == "=" && m[1] != "job" && m[3] != "" && !x.values[m[1]][m[3]] { // "": those without the label
				t.Errorf("nothing has %s=%q, which is in\n%s", m[1], m[3], q)
			}
		}
		for _, m := range regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`).FindAllStringSubmatch(q, -1) {
			for label := range strings.SplitSeq(m[1], ",") {
				if x.values[strings.TrimSpace(label)] == nil {
					t.Errorf("nothing has the label %s, which is in\n%s", label, q)
				}
			}
		}
	}
}

var (
	noMetric = regexp.MustCompile(`"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(?:by|without|on|ignoring)\s*\([^)]*\)|\boffset \w+`)
	word     = regexp.MustCompile(`[a-zA-Z_:][\w:]*(\s*\()?`)
)

// metricsOf returns the names of metrics in a query: what is left of its words.
func metricsOf(query string) (names []string) {
	for strings.ContainsAny(query, "\"{") {
		shorter := noMetric.ReplaceAllString(query, " ")
		if shorter == query {
			break
		}
		query = shorter
	}
	for _, w := range word.FindAllString(noMetric.ReplaceAllString(query, " "), -1) {
		if !strings.HasSuffix(w, "(") && !slices.Contains([]string{"and", "or", "unless", "le"}, w) {
			names = append(names, w)
		}
	}
	return names
}

func TestMetricsAreFound(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][]string{
		`up{job="a(b"} == 0 or berth_up`:                                  {"up", "berth_up"},
		`sum by (le, x) (rate(a_bucket{l=~"30|x"}[5m])) / on (y) b:c > 0`: {"a_bucket", "b:c"},
		"max by (x) (\n a unless a offset 10m)":                           {"a", "a"},
		`absent(z)`:                                                       {"z"},
	} {
		if got := metricsOf(query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

// exposition is what somebody exports.
type exposition struct {
	text    string
	metrics map[string]bool
	values  map[string]map[string]bool // of labels
}

// watched is a registry with the metrics of the server, and hooks whose metrics are beside them.
func watched(e *testenv.Env, pace time.Duration) (*prometheus.Registry, berth.Hooks) {
	e.Helper()
	registry := prometheus.NewPedanticRegistry()
	// Names as a collector or Prometheus's own receiver writes them.
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(registry),
		otelprometheus.WithTranslationStrategy("UnderscoreEscapingWithSuffixes"))
	e.Must(err)
	hooks, err := berthotel.Hooks(
		berthotel.MeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))), berthotel.TracerProvider(noop.NewTracerProvider()))
	e.Must(err)
	metrics, err := berthprom.New(e.Peer().Inspector(), berthprom.Options{Watch: berthwatch.Options{Every: pace}})
	e.Must(err)
	e.Cleanup(metrics.Close)
	e.Must(registry.Register(metrics))
	return registry, hooks
}

// exported is what berthprom and berthotel show after a little of everything.
func exported(e *testenv.Env) exposition {
	e.Helper()
	registry, hooks := watched(e, 50*time.Millisecond)
	p := e.Peer(berth.Hook(hooks))
	e.Release(e.Hold(p.Named("a", 1)))
	e.Hold(p.Named("b", 1, berth.MaxHold(time.Hour)))
	e.Queue(p.Named("b", 1))
	e.WantErr(e.Try(p.Named("b", 1)), berth.ErrBusy)
	evicted := e.Hold(p.Named("b", 3))
	e.Must(e.Inspector.Evict(e.Ctx, "b", evicted.ID()))
	e.Lost(evicted)
	brief, cancel := context.WithTimeout(e.Ctx, e.Tick())
	defer cancel()
	_, err := p.Named("b", 1).Acquire(brief)
	e.WantErr(err, context.DeadlineExceeded)
	e.Must(e.Redis.ACLSetUser(e.Ctx, "nobody", "on", ">secret", "-@all").Err())
	options := e.Options
	e.Options.Username, e.Options.Password = "nobody", "secret"
	e.WantErr(e.Try(e.Peer(berth.Hook(hooks)).Named("b", 1)), berth.ErrRefused)
	e.Options = options
	p.Net.Down()
	_, err = p.Named("c", 1).TryAcquire(e.Ctx)
	e.WantErr(err, berth.ErrUnreachable)
	other := e.Peer()
	e.Hold(other.Named("d", 1, berth.MaxHold(time.Hour), berth.Rate(10, time.Minute)))
	e.Queue(other.Named("d", 1))
	e.Must(other.Named("d", 1).Cooldown(e.Ctx, time.Hour))
	for {
		x := gather(e, registry)
		missing := slices.ContainsFunc([]string{
			"berth_client_leases_lost_total", "berth_events_total", "berth_queue_oldest_wait_seconds",
			"berth_lease_ceiling_seconds", "berth_redis_info", "berth_redis_refusals_total", "berth_pause_remaining_seconds", "berth_rate_spent", "berth_redis_round_trip_seconds_sum",
		}, func(name string) bool { return !x.metrics[name] })
		if !missing {
			return x
		}
		e.Pass(e.Tick()) // until the sampler has seen, and hears
	}
}

func gather(e *testenv.Env, registry prometheus.Gatherer) exposition {
	e.Helper()
	families, err := registry.Gather()
	e.Must(err)
	x := exposition{metrics: map[string]bool{"up": true}, values: map[string]map[string]bool{"job": {}, "instance": {}, "le": {}}}
	var b strings.Builder
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&b, f)
		e.Must(err)
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if x.values[l.GetName()] == nil {
					x.values[l.GetName()] = map[string]bool{}
				}
				x.values[l.GetName()][l.GetValue()] = true
			}
		}
	}
	x.text = b.String()
	for line := range strings.Lines(x.text) {
		if !strings.HasPrefix(line, "#") {
			x.metrics[line[:strings.IndexAny(line, "{ ")]] = true
		}
	}
	return x
}

// TestWhatIsExportedIsWellNamed, as far as promtool can tell.
func TestWhatIsExportedIsWellNamed(t *testing.T) {
	t.Parallel()
	if out, err := promtool(t, exported(testenv.Shared(t)).text, "check", "metrics"); err != nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestThePageHasTheMetricsOfPrograms by the names that they have in Prometheus.
func TestThePageHasTheMetricsOfPrograms(t *testing.T) {
	t.Parallel()
	page := read(t, docs+"metrics.md")
	for name := range exported(testenv.Shared(t)).metrics {
		name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if strings.HasPrefix(name, "berth_client_") && !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/metrics.md does not have %s", name)
		}
	}
}
