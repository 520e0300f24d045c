// Package result holds the measurements of a run, in the Go benchmark format, and judges them. It
// does not depend on how they were made.
package result

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/bench/internal/trial"
)

// Report is the result of a run.
type Report struct {
	Command   string // the command that made it
	At        time.Time
	Took      time.Duration
	Partial   string            // why it is incomplete
	Config    []benchfmt.Config // the machine, and the versions of everything but berth
	Berth     string            // the commit, if it is known
	Scenarios []*trial.Trial
	Scale     trial.Scale
	Peers     []*peer.Peer
	Missing   []string           // what could not be measured, and why
	Results   []*benchfmt.Result // one for each slice that was measured
	Verdicts  []Verdict
}

// Configure adds a line about the machine or its software.
func (r *Report) Configure(key, value string) {
	if value != "" {
		r.Config = append(r.Config, benchfmt.Config{Key: key, Value: []byte(value), File: true})
	}
}

// name returns the name of a contestant's benchmark in a case, for example Hot/256/berth.
func name(scenario, caze, peer string) string { return of(scenario) + caze + "/" + peer }

// of returns the prefix of the names of a scenario.
func of(scenario string) string { return strings.ToUpper(scenario[:1]) + scenario[1:] + "/" }

// Add appends the figures of one more slice.
func (r *Report) Add(scenario, caze, peer string, figures []trial.Figure) {
	res := &benchfmt.Result{Config: r.Config, Name: benchfmt.Name(name(scenario, caze, peer)), Iters: 1}
	for _, f := range figures {
		res.Values = append(res.Values, benchfmt.Value{Value: f.Value, Unit: f.Metric})
	}
	r.Results = append(r.Results, res)
}

// Drop removes the figures of a scenario, so that it can be measured again.
func (r *Report) Drop(scenario string) {
	r.Results = slices.DeleteFunc(r.Results, func(res *benchfmt.Result) bool {
		return strings.HasPrefix(res.Name.String(), of(scenario))
	})
}

// Values returns a contestant's figures, in the order of the rounds.
func (r *Report) Values(scenario, caze, peer, metric string) (values []float64) {
	name := name(scenario, caze, peer)
	for _, res := range r.Results {
		if v, ok := res.Value(metric); ok && res.Name.String() == name {
			values = append(values, v)
		}
	}
	return values
}

// Metrics returns the metrics of a scenario.
func (r *Report) Metrics(scenario string) (metrics []string) {
	for _, res := range r.Results {
		for _, v := range res.Values {
			if strings.HasPrefix(res.Name.String(), of(scenario)) && !slices.Contains(metrics, v.Unit) {
				metrics = append(metrics, v.Unit)
			}
		}
	}
	return metrics
}

// Title returns a contestant's title.
func (r *Report) Title(key string) string {
	for _, p := range r.Peers {
		if p.Key == key {
			return p.Title
		}
	}
	return key
}

// confidence is the level of the intervals. It is low enough for three to five rounds to have an
// interval, from the least to the largest value.
const confidence = 0.75

// Summary is a median and its confidence interval.
type Summary struct {
	benchmath.Summary
	N int // number of values
}

// Summarize returns the median of the values, or 0 if there are none.
func Summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	s := benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
	return Summary{benchmath.AssumeNothing.Summary(s, confidence), len(values)}
}

// Bounded reports whether there were enough values for an interval.
func (s Summary) Bounded() bool { return s.N > 1 && !math.IsInf(s.Lo, 0) && !math.IsInf(s.Hi, 0) }

// Write writes the figures in the Go benchmark format. What may differ between two builds is in
// comments, so that benchstat compares them.
func (r *Report) Write(w io.Writer) error {
	comments := append([]string{r.Command, r.Started()}, r.Missing...)
	if r.Berth != "" {
		comments = append(comments, "berth "+r.Berth)
	}
	if r.Partial != "" {
		comments = append(comments, "PARTIAL: "+r.Partial)
	}
	for _, c := range comments {
		if _, err := fmt.Fprintln(w, "#", strings.ReplaceAll(c, "\n", " ")); err != nil {
			return err
		}
	}
	out := benchfmt.NewWriter(w)
	for _, res := range r.Results {
		if err := out.Write(res); err != nil {
			return err
		}
	}
	return nil
}

// Started says when the run began and how long it took.
func (r *Report) Started() string {
	return fmt.Sprintf("%s, %.0f s", r.At.Format("2 January 2006 15:04 MST"), r.Took.Seconds())
}
