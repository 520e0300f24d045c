package result

import (
	"cmp"
	_ "embed" // the targets
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Bound is a bound on a figure, or on its ratio to another contestant's. The ratio is
// computed for each round, and its median counts.
type Bound struct {
	Scenario string   `json:"scenario"`
	Case     string   `json:"case"`
	Metric   string   `json:"metric"`
	Peer     string   `json:"peer,omitempty"`         // default: berth
	Against  string   `json:"against,omitempty"`      // the contestant to divide by; none: the figure itself
	Base     string   `json:"against_case,omitempty"` // default: the same case
	Invert   bool     `json:"invert,omitempty"`       // divide the other way round: how many times faster
	AtLeast  *float64 `json:"at_least,omitempty"`
	AtMost   *float64 `json:"at_most,omitempty"`
	Why      string   `json:"why,omitempty"`
}

// The words of a Verdict.
const (
	Met        = "met"
	Missed     = "missed"
	Unmeasured = "not measured"
)

// Verdict is a bound with the value that was measured.
type Verdict struct {
	Bound
	Summary
	Result string
}

// Judge compares a bound with the median of what was measured.
func (r *Report) Judge(b Bound) Verdict {
	v := Verdict{Bound: b, Result: Unmeasured}
	values := r.values(b)
	if len(values) == 0 {
		return v
	}
	v.Summary, v.Result = Summarize(values), Met
	if b.AtLeast != nil && v.Center < *b.AtLeast || b.AtMost != nil && v.Center > *b.AtMost {
		v.Result = Missed
	}
	return v
}

// JudgeAll sets the verdicts of the report.
func (r *Report) JudgeAll(bounds []Bound) {
	r.Verdicts = nil
	for _, b := range bounds {
		r.Verdicts = append(r.Verdicts, r.Judge(b))
	}
}

// Missed returns the bounds that are not met, or were not measured.
func (r *Report) Missed() (bounds []Bound) {
	for _, v := range r.Verdicts {
		if v.Result != Met {
			bounds = append(bounds, v.Bound)
		}
	}
	return bounds
}

func (r *Report) values(b Bound) []float64 {
	values := r.Values(b.Scenario, b.Case, b.who(), b.Metric)
	if b.Against == "" {
		return values
	}
	base := r.Values(b.Scenario, cmp.Or(b.Base, b.Case), b.Against, b.Metric)
	if b.Invert {
		values, base = base, values
	}
	return Ratios(values, base)
}

// Ratios divides each value by the one of the same round. It is at most as long as the
// shorter of the two, and leaves out rounds with a divisor of 0.
func Ratios(values, by []float64) (ratios []float64) {
	for i := range min(len(values), len(by)) {
		if by[i] != 0 {
			ratios = append(ratios, values[i]/by[i])
		}
	}
	return ratios
}

func (b Bound) who() string { return cmp.Or(b.Peer, "berth") }

// Names returns the contestants that the bound needs.
func (b Bound) Names() []string {
	if b.Against == "" {
		return []string{b.who()}
	}
	return []string{b.who(), b.Against}
}

// Cases returns the cases that the bound needs.
func (b Bound) Cases() []string { return []string{b.Case, cmp.Or(b.Base, b.Case)} }

// Limit returns the bound's number, for people.
func (b Bound) Limit() string {
	var parts []string
	if b.AtLeast != nil {
		parts = append(parts, "≥ "+strconv.FormatFloat(*b.AtLeast, 'f', -1, 64))
	}
	if b.AtMost != nil {
		parts = append(parts, "≤ "+strconv.FormatFloat(*b.AtMost, 'f', -1, 64))
	}
	return strings.Join(parts, ", ")
}

//go:embed targets.json
var targets string

// Targets returns the targets that berth set itself.
func Targets() []Bound {
	bounds, err := ReadBounds(strings.NewReader(targets))
	if err != nil {
		panic(err)
	}
	return bounds
}

// ReadBounds reads a list of bounds. It refuses unknown fields, and bounds without a
// number, which would always hold.
func ReadBounds(in io.Reader) ([]Bound, error) {
	var file struct {
		About  string  `json:"about"`
		Bounds []Bound `json:"expectations"`
	}
	dec := json.NewDecoder(in)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return nil, err
	}
	if len(file.Bounds) == 0 {
		return nil, fmt.Errorf("it has no expectations")
	}
	for _, b := range file.Bounds {
		if b.AtLeast == nil && b.AtMost == nil {
			return nil, fmt.Errorf("%s %s %s: neither at_least nor at_most", b.Scenario, b.Case, b.Metric)
		}
	}
	return file.Bounds, nil
}
