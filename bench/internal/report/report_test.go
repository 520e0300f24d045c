package report

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/berth-go/berth/bench/internal/result"
)

const nasty = `<script>alert("x")</script>&'`

// fixed is a report with every kind of picture and with hostile words.
func fixed() *result.Report {
	r := &result.Report{
		Command: "go run ./bench --only " + nasty, At: time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC), Took: 12.5, Seed: 7, Rounds: 3,
		Machine:  result.Machine{CPU: "a CPU " + nasty, CPUs: 2, OS: "linux/amd64", Own: true},
		Versions: map[string]string{"Go": "1.26", "redis-server": nasty},
		Peers:    []result.Peer{{Key: "berth", Title: "berth", Kind: "semaphore", About: nasty}, {Key: "redislock", Title: "bsm/redislock", Kind: "lock"}},
		Scenes: []result.Scene{
			{Key: "pair", Title: "A pair", About: nasty, Cases: []string{"1"}},
			{Key: "hot", Title: "Hot", Cases: []string{"1", "256"}},
			{Key: "contended", Title: "Contended", Cases: []string{"5", "1"}},
			{Key: "handoff", Title: "Handoff", Cases: []string{"3ms"}},
			{Key: "holders", Title: "Holders", Cases: []string{"10", "100,000"}},
			{Key: "memory", Title: "Not reached", Cases: []string{"9"}},
		},
		Skipped: []result.Skip{{Peer: "npm", Why: nasty}, {Scenario: "hot", Case: "1", Peer: "redislock", Why: "no reason"}},
	}
	for i, p := range r.Peers {
		for round := range 3 {
			v := float64(100*(i+1) + round)
			r.Add("pair", "1", p.Key, "p50 µs", v, []float64{v, 2 * v, 3 * v})
			r.Add("hot", "1", p.Key, "pairs/s", v, nil)
			r.Add("hot", "256", p.Key, "pairs/s", 100*v, nil)
			r.Add("contended", "5", p.Key, "commands", v/50, nil)
			r.Add("contended", "5", p.Key, "wait p50 µs", v, []float64{v, 9 * v})
			r.Add("handoff", "3ms", p.Key, "p50 µs", v, []float64{v, 50 * v})
			r.Add("holders", "10", p.Key, "server µs", v, nil)
			r.Add("holders", "100,000", p.Key, "server µs", 1000*v, nil)
		}
	}
	for _, b := range result.Targets() {
		r.Verdicts = append(r.Verdicts, r.Judge(b))
	}
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
		"101 (100–102)", // median and spread
		"10,100 ±1 %",
		"0.50", // berth's ratio to the other
		"hot 256: pairs/s / bsm/redislock", "missed", "not measured", "no reason",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestJSONComesBackAsItWas(t *testing.T) {
	t.Parallel()
	want := fixed()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := &result.Report{}
	if err := json.Unmarshal(text, got); err != nil {
		t.Fatal(err)
	}
	for i, s := range want.Series {
		if g := got.Series[i]; !reflect.DeepEqual(g.Values, s.Values) || !reflect.DeepEqual(g.Steps, s.Steps) || g.Median != s.Median {
			t.Errorf("series %d: %+v, want %+v", i, g, s)
		}
	}
	got.Series = want.Series // but for the single samples, which are not kept
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestPageEscapesEverything(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := HTML(&out, fixed()); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if strings.Contains(page, "<script") || strings.Contains(page, "alert(\"x\")") {
		t.Error("words of the report are part of the page")
	}
	if strings.Contains(page, "ZgotmplZ") || strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("the page has values that could not be drawn")
	}
	for _, want := range []string{"&lt;script&gt;", "<svg", "How long a pair takes", "Throughput", "live holders", "Commands sent", "waiter&#39;s return"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "Not reached") {
		t.Error("a scenario without figures is shown")
	}
	if strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Error("the page needs the network")
	}
}

// On a narrow screen tables scroll in boxes of their own, and drawings are small
// enough for their words to be read.
func TestPageFitsANarrowScreen(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := HTML(&b, fixed()); err != nil {
		t.Fatal(err)
	}
	tables, boxed := regexp.MustCompile(`<table`), regexp.MustCompile(`<div class="scroll">\s*<table`)
	if all, good := len(tables.FindAll(b.Bytes(), -1)), len(boxed.FindAll(b.Bytes(), -1)); all == 0 || good != all {
		t.Errorf("%d of %d tables are in a box that scrolls", good, all)
	}
	drawings := regexp.MustCompile(`viewBox="0 0 ([0-9]+)`).FindAllSubmatch(b.Bytes(), -1)
	if len(drawings) == 0 {
		t.Error("no drawing")
	}
	for _, d := range drawings {
		if width, err := strconv.Atoi(string(d[1])); err != nil || width > 560 {
			t.Errorf("a drawing is %s wide", d[1])
		}
	}
}

func TestPartialReportsSaySo(t *testing.T) {
	t.Parallel()
	r := fixed()
	r.Partial = "it was interrupted"
	var text, page bytes.Buffer
	if err := Text(&text, r); err != nil {
		t.Fatal(err)
	}
	if err := HTML(&page, r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "PARTIAL: it was interrupted") || !strings.Contains(page.String(), "not complete: it was interrupted") {
		t.Error("nobody would notice")
	}
}

func TestEmptyReportIsStillAReport(t *testing.T) {
	t.Parallel()
	var text, page bytes.Buffer
	r := &result.Report{Scenes: fixed().Scenes, Partial: "at once"}
	if err := Text(&text, r); err != nil {
		t.Fatal(err)
	}
	if err := HTML(&page, r); err != nil {
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

func TestFoldKeepsToTheWidth(t *testing.T) {
	t.Parallel()
	if got, want := fold([]string{"aaaa", "bbb", "cccc", "d"}, 9), "aaaa, bbb,\ncccc, d"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
