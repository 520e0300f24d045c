package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/bench/internal/result"
	"github.com/berth-go/berth/dev/bench/internal/trial"
)

// fixed is a report of several scenarios, one of which was not reached.
func fixed() *result.Report {
	find := func(key string) *trial.Trial {
		all := trial.All()
		s := *all[slices.IndexFunc(all, func(s *trial.Trial) bool { return s.Key == key })]
		return &s
	}
	r := &result.Report{
		Command: "go run ./dev/bench", At: time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC), Took: 12 * time.Second,
		Berth: "0123abc", Scale: trial.Full(),
		Peers:   []*peer.Peer{{Key: "berth", Title: "berth", Kind: peer.Semaphore}, {Key: "redislock", Title: "bsm/redislock", Kind: peer.Lock}},
		Missing: []string{"npm: not installed", "hot 1, bsm/redislock: no reason"},
	}
	r.Configure("cpu", "a CPU")
	for _, key := range []string{"pair", "hot", "contended", "handoff", "holders", "memory"} {
		r.Scenarios = append(r.Scenarios, find(key))
	}
	r.Scenarios[5].Title = "Not reached"
	for i, p := range r.Peers {
		for round := range 3 {
			v := float64(100*(i+1) + round)
			add := func(scenario, caze string, figures ...trial.Figure) { r.Add(scenario, caze, p.Key, figures) }
			add("pair", "1", trial.Figure{Metric: "p50-µs", Value: v})
			add("hot", "1", trial.Figure{Metric: "pairs/s", Value: v})
			add("hot", "256", trial.Figure{Metric: "pairs/s", Value: 100 * v})
			add("contended", "5", trial.Figure{Metric: "commands", Value: v / 50}, trial.Figure{Metric: "wait-p50-µs", Value: v})
			add("handoff", "3ms", trial.Figure{Metric: "p50-µs", Value: v})
			add("holders", "10", trial.Figure{Metric: "server-µs", Value: v})
			add("holders", "100,000", trial.Figure{Metric: "server-µs", Value: 1000 * v})
		}
	}
	r.JudgeAll(result.Targets())
	return r
}

func TestTextFitsTheTerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := Text(&out, fixed()); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{
		"101 (100–102)", // median and interval
		"10,100 ±1 %",
		"0.50", // berth's ratio to the other
		"hot 256: pairs/s / bsm/redislock", "missed", "not measured", "no reason",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	for _, bad := range []string{"Not reached", "NaN", "Inf"} {
		if strings.Contains(out.String(), bad) {
			t.Errorf("the table has %q:\n%s", bad, out.String())
		}
	}
}

func TestPartialReportsSaySo(t *testing.T) {
	t.Parallel()
	r := fixed()
	r.Partial = "it was interrupted"
	var text bytes.Buffer
	if err := Text(&text, r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "PARTIAL: it was interrupted") {
		t.Error("nobody would notice")
	}
}

func TestEmptyReportIsStillAReport(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	if err := Text(&text, &result.Report{Scenarios: fixed().Scenarios, Scale: trial.Full(), Partial: "at once"}); err != nil {
		t.Fatal(err)
	}
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 0.123: "0.12", 2: "2.00", 9.996: "10.0", 12.34: "12.3", 99.96: "100", 999.7: "1,000", 1234567: "1,234,567", -1234: "-1,234",
	} {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %s, want %s", v, got, want)
		}
	}
}
