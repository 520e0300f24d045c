package berthprom_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthprom"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// A program that exports what is on Redis, and what a scrape shows of it.
func Example() {
	store := berthtest.Start() // stands in for Redis
	defer store.Close()
	client := store.Client()
	sem, err := client.Semaphore("api/example.com", 5)
	if err != nil {
		panic(err)
	}
	err = sem.Do(context.Background(), func(context.Context) error { return program(store.Redis(), scrape) })
	if err != nil {
		panic(err)
	}
	// Output:
	// berth_permits_declared{berth_semaphore_name="api/*"} 5
	// berth_permits_in_use{berth_semaphore_name="api/*"} 1
	// berth_permits_limit{berth_semaphore_name="api/*"} 5
	// berth_up 1
}

func program(rdb redis.UniversalClient, work func()) error {
	in, err := berthadmin.New(rdb, berthadmin.Options{})
	if err != nil {
		return err
	}
	metrics, err := berthprom.New(in, berthprom.Options{Group: []string{"api/*"}})
	if err != nil {
		return err
	}
	defer metrics.Close()
	prometheus.MustRegister(metrics)
	http.Handle("/metrics", promhttp.Handler())

	work()
	return nil
}

// scrape scrapes until the first sample is there, and prints some of it.
func scrape() {
	var text string
	for !strings.Contains(text, "berth_permits") {
		w := httptest.NewRecorder()
		http.DefaultServeMux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		text = w.Body.String()
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "berth_permits") || strings.HasPrefix(line, "berth_up") {
			fmt.Print(line)
		}
	}
}

// page is the documentation of the metrics.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestThePageHasEveryMetric, with its labels, and no other.
func TestThePageHasEveryMetric(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		c, err := berthprom.New(e.Peer().Inspector(), berthprom.Options{})
		e.Must(err)
		defer c.Close()
		descs := make(chan *prometheus.Desc, 100)
		c.Describe(descs)
		close(descs)
		var exported, documented []string
		for d := range descs {
			m := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{(.*?)\}`).FindStringSubmatch(d.String())
			labels := strings.TrimPrefix(strings.TrimPrefix(m[2], "berth_semaphore_name"), ",")
			if labels != "" {
				labels = "{" + labels + "}"
			}
			exported = append(exported, m[1]+labels)
		}
		for _, m := range regexp.MustCompile("(?m)^\\| `(berth_[^`]+)` \\| (gauge|counter|histogram)").FindAllStringSubmatch(page(t), -1) {
			documented = append(documented, m[1])
			if strings.Contains(m[1], "_total") != (m[2] == "counter") {
				e.Errorf("%s is no %s", m[1], m[2])
			}
		}
		slices.Sort(exported)
		slices.Sort(documented)
		if !slices.Equal(exported, documented) {
			e.Errorf("exported   %v\ndocumented %v", exported, documented)
		}
	})
}
