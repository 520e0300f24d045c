// Package result holds what a run measured, and judges it. It knows nothing of
// how anything was measured.
package result

import (
	"slices"
	"time"

	"github.com/berth-go/berth/bench/internal/stat"
	"github.com/berth-go/berth/internal/quantile"
)

// Report is what one run found.
type Report struct {
	Command  string            `json:"command"` // makes such a report again
	At       time.Time         `json:"at"`
	Took     float64           `json:"took_seconds"`
	Seed     uint64            `json:"seed"`
	Rounds   int               `json:"rounds"`
	Partial  string            `json:"partial,omitempty"` // why it is not complete
	Machine  Machine           `json:"machine"`
	Versions map[string]string `json:"versions"`
	Peers    []Peer            `json:"peers"`
	Scenes   []Scene           `json:"scenarios"`
	Skipped  []Skip            `json:"skipped,omitempty"`
	Series   []*Series         `json:"series"`
	Verdicts []Verdict         `json:"verdicts"`
}

// Machine is where it ran.
type Machine struct {
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	OS     string `json:"os"`
	Memory string `json:"memory,omitempty"`
	Own    bool   `json:"own_server"`       // the server was started for the run
	Pinned string `json:"pinned,omitempty"` // the CPUs to which the run kept
}

// Peer is one contestant.
type Peer struct {
	Key   string `json:"key"`
	Title string `json:"title"`
	Kind  string `json:"kind"`
	About string `json:"about"`
}

// Scene is one scenario.
type Scene struct {
	Key   string   `json:"key"`
	Title string   `json:"title"`
	About string   `json:"about"`
	Cases []string `json:"cases"`
}

// Skip is something that was asked for and not measured.
type Skip struct {
	Scenario string `json:"scenario,omitempty"` // empty: all
	Case     string `json:"case,omitempty"`
	Peer     string `json:"peer"`
	Why      string `json:"why"`
}

// Series is one figure of one contestant, once for each round.
type Series struct {
	Scenario string    `json:"scenario"`
	Case     string    `json:"case"`
	Peer     string    `json:"peer"`
	Metric   string    `json:"metric"`
	Values   []float64 `json:"values"` // in the order of the rounds
	Median   float64   `json:"median"`
	Min      float64   `json:"min"`
	Max      float64   `json:"max"`
	// Steps are the percentiles 0, 1, … 100 of all single samples, where a value
	// is itself made of samples.
	Steps []float64 `json:"percentiles,omitempty"`

	samples []float64
}

// Add appends the value of one more round, and the samples behind it.
func (r *Report) Add(scenario, caze, peer, metric string, value float64, samples []float64) {
	s := r.Find(scenario, caze, peer, metric)
	if s == nil {
		s = &Series{Scenario: scenario, Case: caze, Peer: peer, Metric: metric}
		r.Series = append(r.Series, s)
	}
	s.Values = append(s.Values, value)
	s.Median, s.Min, s.Max = quantile.Median(s.Values), slices.Min(s.Values), slices.Max(s.Values)
	if len(samples) > 0 {
		s.samples = append(s.samples, samples...)
		slices.Sort(s.samples)
		s.Steps = stat.Steps(s.samples, 100)
	}
}

// Drop removes every figure of a scenario: it is to be measured again.
func (r *Report) Drop(scenario string) {
	r.Series = slices.DeleteFunc(r.Series, func(s *Series) bool { return s.Scenario == scenario })
}

// Find returns a series, nil if it was not measured.
func (r *Report) Find(scenario, caze, peer, metric string) *Series {
	for _, s := range r.Series {
		if s.Scenario == scenario && s.Case == caze && s.Peer == peer && s.Metric == metric {
			return s
		}
	}
	return nil
}

// Title returns a contestant's title.
func (r *Report) Title(peer string) string {
	for _, p := range r.Peers {
		if p.Key == peer {
			return p.Title
		}
	}
	return peer
}
