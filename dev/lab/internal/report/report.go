// Package report presents the results of a run of the lab: as tables, as JSON, and as a
// page with charts. Every number in it comes from the run.
package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/dev/lab/internal/stage"
)

// Report is the result of a run of the lab.
type Report struct {
	Command    string          `json:"command"`
	At         time.Time       `json:"at"`
	Store      string          `json:"store"` // "embedded store", or Redis and its version
	Embedded   bool            `json:"embedded"`
	CPUs       int             `json:"cpus"`
	Seed       uint64          `json:"seed"`
	DurationMS int64           `json:"duration_ms"` // for each scenario and algorithm
	PollMS     float64         `json:"poll_ms"`
	TookSecond float64         `json:"took_seconds"`
	Complete   bool            `json:"complete"`
	Failure    string          `json:"failure,omitempty"` // why it is incomplete
	Results    []*stage.Result `json:"results"`

	Scenarios []scenario.Scenario `json:"-"` // in order
}

// of returns the results of a scenario, in the order of the run.
func (r *Report) of(key string) (list []*stage.Result) {
	for _, res := range r.Results {
		if res.Scenario == key {
			list = append(list, res)
		}
	}
	return list
}

// Broken returns the keys of the scenarios in which berth exceeded its limit, which must
// be none.
func (r *Report) Broken() (keys []string) {
	for _, res := range r.Results {
		if res.Algorithm == "berth" && res.Limits != nil && res.Limits.Moments > 0 {
			keys = append(keys, res.Scenario)
		}
	}
	return keys
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	for _, sc := range r.Scenarios {
		list := r.of(sc.Key)
		if len(list) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s (%s)\n", strings.ToUpper(sc.Title), sc.Key)
		_ = table(list).Write(&b, "ALGORITHM") // into a strings.Builder
		for _, s := range r.words(list) {
			fmt.Fprintln(&b, measure.Wrap(s.Name+s.Text, 96, "  "))
		}
		b.WriteString("\n")
	}
	b.WriteString(measure.Wrap(r.conditions(), 96, "") + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// conditions says under which conditions the numbers were measured.
func (r *Report) conditions() string {
	s := fmt.Sprintf("On %s, %s, seed %d, %v for each scenario and algorithm, %.0f s in all. "+
		"Who was refused comes again after about %.0f ms. Beliefs are the clients' own, on one monotonic clock. "+
		"Overtaken means by a request that was made after Redis had answered the first one, and to which Redis gave a permit before it.",
		r.Store, plural(r.CPUs, "CPU"), r.Seed, time.Duration(r.DurationMS)*time.Millisecond, r.TookSecond, r.PollMS)
	if r.Embedded {
		s += " The embedded store is for trying things out: use --redis for figures about speed."
	}
	return s
}
