package report

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/dev/internal/chart"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/dev/lab/internal/stage"
	"github.com/berth-go/berth/internal/judge"
)

// contended is the scenario of the results here.
var contended = scenario.Contended(64, 10*time.Millisecond)

// crowded is a result with, or without, a moment over its limit of 1.
func crowded(algorithm string, over bool) *stage.Result {
	r := &stage.Result{
		Scenario: contended.Key, Algorithm: algorithm, Title: algorithm, Limit: 1, Clients: 2, Seconds: 0.1,
		Limits: &stage.Limits{MostHeld: 1}, Window: judge.Span{To: 100 * time.Millisecond},
		Rate:   &stage.Rate{Acquires: 2, PerSecond: 20, Ideal: 40, Sent: 3.5},
		Waits:  &stage.Waits{P50MS: 1, P99MS: 20, MaxMS: 20, Requests: 2},
		Sorted: []time.Duration{time.Millisecond, 20 * time.Millisecond},
	}
	start := 60 * time.Millisecond
	if over {
		start = 40 * time.Millisecond
		r.Limits = &stage.Limits{Moments: 1, WorstOver: 1, OverMS: 10, OverShare: 0.1, Stolen: 1, MostHeld: 2}
		r.Moments = []judge.Excess{{Span: judge.Span{From: start, To: 50 * time.Millisecond}, By: 1}}
		r.Waits.Overtaken, r.Waits.MostBy = 1, 1
	}
	r.Requests = []judge.Request{
		{Client: 0, Granted: true, Start: 10 * time.Millisecond, End: 50 * time.Millisecond},
		{Client: 1, Asked: 5 * time.Millisecond, Granted: true, Start: start, End: 80 * time.Millisecond},
	}
	return r
}

func sample(t *testing.T) *Report {
	t.Helper()
	return &Report{
		Command: "go run ./dev/lab <b>", At: time.Unix(1326437039, 0).UTC(), Store: "Redis 7.0.15", CPUs: 2, Seed: 1, DurationMS: 1000,
		PollMS: 10, Complete: true,
		Results:   []*stage.Result{crowded("basic", true), crowded("berth", false)},
		Scenarios: []scenario.Scenario{contended},
	}
}

func TestTextSaysWhatTheNumbersSay(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := sample(t).Text(&b); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"basic once (by 1) 10 % 1 of 2 20 (50 %) 3.5 1.0 ms / 20 ms / 20 ms 50 % (by 1)",
		"berth never 0 % 0 of 2 20 (50 %) 3.5 1.0 ms / 20 ms / 20 ms none",
		"Basic exceeded the limit of 1 in 1 moment, 10 % of the time, by up to 1 holder.",
		"Berth kept the limit: never did more than 1 client believe",
		"Permits that are given twice do not count as speed.",
		"On Redis 7.0.15, 2 CPUs, seed 1, 1s for each scenario",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing: %q\nin: %s", want, b.String())
		}
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 140 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
}

// Red is there when somebody was over the limit, and only then.
func TestPageShowsMomentsOverTheLimit(t *testing.T) {
	t.Parallel()
	for _, over := range []bool{false, true} {
		rep := sample(t)
		rep.Results = []*stage.Result{crowded("basic", over)}
		var b bytes.Buffer
		if err := rep.HTML(&b); err != nil {
			t.Fatal(err)
		}
		for _, mark := range []string{`class="over"`, `class="moment"`, `class="bad"`} {
			if strings.Contains(b.String(), mark) != over {
				t.Errorf("over the limit: %v, but %s in the page: %v", over, mark, !over)
			}
		}
		if strings.Contains(b.String(), "lab <b>") {
			t.Error("text is not escaped")
		}
		if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
			t.Error("a drawing has a coordinate that is no number")
		}
	}
}

// TestPageFitsANarrowScreen: every table scrolls in its own box, and the text of every drawing can
// be read on a screen 390 pixels wide.
func TestPageFitsANarrowScreen(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := sample(t).HTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	boxed := len(regexp.MustCompile(`<div class="scroll">\s*<table`).FindAllString(page, -1))
	if all := strings.Count(page, "<table"); all == 0 || boxed != all {
		t.Errorf("%d of %d tables are in a box that scrolls", boxed, all)
	}
	drawings := regexp.MustCompile(`viewBox="0 0 ([0-9]+)`).FindAllStringSubmatch(page, -1)
	if len(drawings) == 0 {
		t.Error("no drawing")
	}
	for _, d := range drawings {
		if width, err := strconv.Atoi(d[1]); err != nil || width > 560 {
			t.Errorf("a drawing is %s wide", d[1])
		}
	}
}

func TestTimelineDrawsEachBelief(t *testing.T) {
	t.Parallel()
	count := func(tl *chart.Timeline, class string) (n int) {
		for _, b := range tl.Bars {
			if b.Class == class {
				n++
			}
			if b.X < tl.Left || b.X+b.W > tl.Right+1 || b.Y < 0 || b.Y+b.H > tl.Height {
				t.Errorf("a bar is outside: %+v", b)
			}
		}
		return n
	}
	r := crowded("basic", true)
	tl := newTimeline(r)
	if held, over, wait := count(tl, "held"), count(tl, "over"), count(tl, "wait"); held != 2 || over != 2 || wait != 2 || len(tl.Over) != 1 {
		t.Errorf("%d held, %d over, %d wait, %d moments; want 2, 2, 2, 1", held, over, wait, len(tl.Over))
	}
	r.Window = judge.Span{From: 55 * time.Millisecond, To: 70 * time.Millisecond}
	tl = newTimeline(r)
	if held := count(tl, "held"); held != 1 || len(tl.Over) != 0 || len(lanes(r)) != 1 {
		t.Errorf("%d held, %d moments, %d lanes in a window with one client", held, len(tl.Over), len(lanes(r)))
	}
	r.Window = judge.Span{To: 5 * time.Millisecond}
	if got := lanes(r); len(got) != 1 {
		t.Errorf("lanes %v before the second client came", got)
	}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	rep := sample(t)
	if keys := rep.Broken(); len(keys) > 0 {
		t.Errorf("basic's fault is held against berth: %v", keys)
	}
	rep.Results[1] = crowded("berth", true)
	if keys := rep.Broken(); len(keys) != 1 {
		t.Errorf("berth's fault is not seen: %v", keys)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		percent(0): "0 %", percent(0.0004): "< 0.1 %", percent(0.034): "3.4 %", percent(0.42): "42 %",
		percent(0.997): "> 99 %", percent(1): "100 %", percent(1.4): "140 %",
		ms(0.12): "0.12 ms", ms(1.26): "1.3 ms", ms(303): "303 ms", ms(12_345): "12.3 s",
		micros(82.4): "82 µs", micros(3494): "3,494 µs", micros(72_660): "73 ms",
		times(1): "once", times(2): "twice", times(1500): "1,500 times",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
