package monitoring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/berth-go/berth/berthprom"
	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// server is a real Prometheus.
type server struct {
	*testing.T
	url string
}

// scraping starts one that scrapes a target, with the rules of a file.
func scraping(t *testing.T, rules, target string) *server {
	t.Helper()
	dir := t.TempDir()
	alerts, err := filepath.Abs(rules)
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: berth, static_configs: [{targets: [%q]}]}]\n", alerts, target)
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for try := range 3 { // the port may be taken by somebody else meanwhile
		address := freeAddress(t)
		out, err := os.Create(filepath.Join(dir, fmt.Sprint("log", try)))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd := exec.Command(program(t, "prometheus"), "--config.file="+file, "--web.listen-address="+address,
			"--storage.tsdb.path="+filepath.Join(dir, fmt.Sprint("data", try)))
		cmd.Stderr = out
		p, err := child.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		s := &server{t, "http://" + address}
		if s.until(p.Done(), func() bool { return s.get("/-/ready", nil) == nil }) {
			return s
		}
		log, _ := os.ReadFile(out.Name())
		t.Logf("it ended: %s", log)
	}
	t.Fatal("prometheus does not start")
	return nil
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// get asks it for JSON, if that is wanted.
func (s *server) get(path string, into any) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// client keeps no connections: they would be goroutines that are left over.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// until asks again and again; false: it has ended. The bound is for a test that hangs.
func (s *server) until(ended <-chan struct{}, ok func() bool) bool {
	s.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); {
		select {
		case <-ended:
			return false
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(end) {
			s.Fatal("not within two minutes")
		}
	}
	return true
}

// value returns what a query results in, "" for nothing.
func (s *server) value(query string) string {
	var reply struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	err := s.get("/api/v1/query?query="+url.QueryEscape(query), &reply)
	if err != nil || len(reply.Data.Result) != 1 {
		return ""
	}
	return fmt.Sprint(reply.Data.Result[0].Value[1])
}

// TestPrometheusScrapesAndEvaluates: a real Prometheus takes the rules, and has the numbers of
// a real Redis.
func TestPrometheusScrapesAndEvaluates(t *testing.T) {
	t.Parallel()
	e := testenv.Shared(t)
	p := e.Peer()
	e.Hold(p.Named("api", 4))
	e.Hold(p.Named("api", 4))
	e.Hold(p.Named("api", 4))
	metrics, err := berthprom.New(p.Inspector(), berthprom.Options{})
	e.Must(err)
	defer metrics.Close()
	registry := prometheus.NewRegistry()
	e.Must(registry.Register(metrics))
	target := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer target.Close()
	s := scraping(t, alertsFile, target.Listener.Addr().String())
	for query, want := range map[string]string{
		`up{job="berth"}`: "1",
		`berth_up`:        "1",
		`berth_permits_in_use{berth_semaphore_name="api"}`: "3",
		`berth:saturation{berth_semaphore_name="api"}`:     "0.75",
		`berth_semaphores{state="damaged"}`:                "0",
	} {
		got := ""
		s.until(nil, func() bool { got = s.value(query); return got != "" && got != "0" || got == want })
		if got != want {
			t.Errorf("%s is %s, want %s", query, got, want)
		}
	}
	s.until(nil, func() bool { return s.healthy() == len(rules(t)) })
}

// healthy returns how many rules were evaluated without an error.
func (s *server) healthy() (n int) {
	s.Helper()
	var reply struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if s.get("/api/v1/rules", &reply) != nil {
		return 0
	}
	for _, g := range reply.Data.Groups {
		for _, r := range g.Rules {
			switch r.Health {
			case "ok":
				n++
			case "err":
				s.Fatalf("%s: %s", r.Name, r.LastError)
			}
		}
	}
	return n
}
