// Package report tells what the laboratory found: as a table, as JSON, and as a
// page with pictures. Every number in it comes from the run.
package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/berth-go/berth/lab/internal/scene"
)

// Report is what one run of the laboratory found.
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
	Failure    string          `json:"failure,omitempty"` // why it is not complete
	Results    []*scene.Result `json:"results"`

	Scenarios []scene.Scenario `json:"-"` // in order
}

// of returns the results of a scenario, in the order of the run.
func (r *Report) of(key string) (list []*scene.Result) {
	for _, res := range r.Results {
		if res.Scenario == key {
			list = append(list, res)
		}
	}
	return list
}

// Broken names the scenarios in which berth exceeded its limit: never, if it
// keeps its promises.
func (r *Report) Broken() (keys []string) {
	for _, res := range r.Results {
		if res.Algorithm == "berth" && res.Limits != nil && res.Limits.Moments > 0 {
			keys = append(keys, res.Scenario)
		}
	}
	return keys
}

// column is one of a table. Its cell is empty where nothing was measured.
type column struct {
	head string
	cell func(r *scene.Result) string
	// good tells whether the value is as it should be; nil: no judgement.
	good func(r *scene.Result) bool
}

// columns returns those for which the results have values.
func columns(list []*scene.Result) []column {
	all := []column{
		{"OVER LIMIT", cellMoments, func(r *scene.Result) bool { return r.Limits == nil || r.Limits.Moments == 0 }},
		{"OF TIME", cellShare, nil},
		{"STOLEN", cellStolen, nil},
		{"PER SECOND", cellRate, nil},
		{"COMMANDS", cellSent, nil},
		{"EXECUTED", cellExecuted, nil},
		{"WAIT P50 / P99 / MAX", cellWaits, nil},
		{"OVERTAKEN", cellOvertaken, func(r *scene.Result) bool { return r.Waits == nil || r.Waits.Overtaken == 0 }},
		{"PERMITS BACK AFTER", cellBack, nil},
		{"NEXT HELD UP", cellStall, func(r *scene.Result) bool { return r.Crash == nil || r.Crash.StallMS < r.TimeoutMS/2 }},
		{"OTHER GOT IT AFTER", cellOthers, nil},
		{"WENT ON FOR", cellAwake, nil},
		{"ENDED BY", cellEnd, nil},
		{"REQUEST LOST: BACK AFTER", cellLost, nil},
		{"REPLY LOST: BACK AFTER", cellReply, nil},
		{"WRONG REPORTS", cellWrong, func(r *scene.Result) bool { return r.Cut == nil || r.Cut.Wrong == 0 }},
	}
	for i := range pointsOf(list) {
		all = append(all, costColumn(list, i))
	}
	var used []column
	for _, c := range all {
		for _, r := range list {
			if c.cell(r) != "" {
				used = append(used, c)
				break
			}
		}
	}
	return used
}

func pointsOf(list []*scene.Result) int {
	if len(list) == 0 {
		return 0
	}
	return len(list[0].Growth)
}

func costColumn(list []*scene.Result, i int) column {
	head := group(list[0].Growth[i].Holders) + " HOLDERS"
	return column{head: head, cell: func(r *scene.Result) string {
		if i >= len(r.Growth) {
			return ""
		}
		p := r.Growth[i]
		s := micros(p.P50US)
		if p.ServerUS != nil {
			s += " (" + micros(*p.ServerUS) + " CPU)"
		}
		return s
	}}
}

func cellMoments(r *scene.Result) string {
	switch {
	case r.Limits == nil:
		return ""
	case r.Limits.Moments == 0:
		return "never"
	default:
		return fmt.Sprintf("%s (by %d)", times(r.Limits.Moments), r.Limits.WorstOver)
	}
}

func cellShare(r *scene.Result) string {
	if r.Limits == nil || r.Pause != nil || r.Crash != nil || r.Cut != nil {
		return ""
	}
	return percent(r.Limits.OverShare)
}

func cellStolen(r *scene.Result) string {
	if r.Limits == nil {
		return ""
	}
	if r.Rate == nil {
		return group(r.Limits.Stolen)
	}
	return fmt.Sprintf("%s of %s", group(r.Limits.Stolen), group(r.Rate.Acquires))
}

func cellRate(r *scene.Result) string {
	switch {
	case r.Rate == nil:
		return ""
	case r.Rate.Ideal == 0:
		return fmt.Sprintf("%.0f", r.Rate.PerSecond)
	default:
		return fmt.Sprintf("%.0f (%s)", r.Rate.PerSecond, percent(r.Rate.PerSecond/r.Rate.Ideal))
	}
}

func cellSent(r *scene.Result) string {
	if r.Rate == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", r.Rate.Sent)
}

func cellExecuted(r *scene.Result) string {
	if r.Rate == nil || r.Rate.Executed == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", *r.Rate.Executed)
}

func cellWaits(r *scene.Result) string {
	if r.Waits == nil {
		return ""
	}
	return ms(r.Waits.P50MS) + " / " + ms(r.Waits.P99MS) + " / " + ms(r.Waits.MaxMS)
}

func cellOvertaken(r *scene.Result) string {
	switch {
	case r.Waits == nil || r.Waits.Requests == 0:
		return ""
	case r.Waits.Overtaken == 0:
		return "none"
	default:
		return fmt.Sprintf("%s (by %d)", percent(float64(r.Waits.Overtaken)/float64(r.Waits.Requests)), r.Waits.MostBy)
	}
}

func cellBack(r *scene.Result) string {
	if r.Crash == nil {
		return ""
	}
	var s []string
	for _, b := range r.Crash.BackMS {
		s = append(s, fmt.Sprintf("%.0f", b))
	}
	return strings.Join(s, ", ") + " ms"
}

func cellStall(r *scene.Result) string {
	if r.Crash == nil {
		return ""
	}
	return ms(r.Crash.StallMS)
}

func cellOthers(r *scene.Result) string {
	if r.Pause == nil {
		return ""
	}
	return ms(r.Pause.OthersMS)
}

func cellAwake(r *scene.Result) string {
	if r.Pause == nil {
		return ""
	}
	return ms(r.Pause.AwakeMS)
}

func cellEnd(r *scene.Result) string {
	switch {
	case r.Pause == nil:
		return ""
	case r.Pause.Told:
		return "told of its loss"
	case r.Pause.Reported:
		return "release: all is well"
	default:
		return "release: had timed out"
	}
}

func cellLost(r *scene.Result) string {
	if r.Cut == nil {
		return ""
	}
	return ms(r.Cut.LostBackMS)
}

func cellReply(r *scene.Result) string {
	if r.Cut == nil {
		return ""
	}
	return ms(r.Cut.BackMS)
}

func cellWrong(r *scene.Result) string {
	if r.Cut == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d", r.Cut.Wrong, r.Cut.Replies)
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	for _, sc := range r.Scenarios {
		list := r.of(sc.Key)
		if len(list) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s (%s)\n%s\n", strings.ToUpper(sc.Title), sc.Key, indent(table(list)))
		for _, line := range r.words(sc.Key, list) {
			fmt.Fprintln(&b, wrap("  "+line, 96, "  "))
		}
		b.WriteString("\n")
	}
	b.WriteString(wrap(r.conditions(), 96, "") + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// conditions says under which circumstances the numbers came about.
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

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ")
}

// wrap breaks lines between words.
func wrap(s string, width int, prefix string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines = append(lines, prefix+line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, prefix+line), "\n")
}

func table(list []*scene.Result) string {
	cols := columns(list)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	heads := []string{"ALGORITHM"}
	for _, c := range cols {
		heads = append(heads, c.head)
	}
	fmt.Fprintln(w, strings.Join(heads, "\t"))
	for _, r := range list {
		cells := []string{r.Title}
		for _, c := range cols {
			cells = append(cells, c.cell(r))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush()
	return b.String()
}
