// Package picture draws a failed run: a page with its violations and, for each, a
// timeline of what clients believed around it.
package picture

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/dev/verify/promises"
)

//go:embed page.html
var text string

var page = template.Must(template.New("page").Parse(text))

const (
	mostShown = 30 // violations with a timeline of their own
	mostBars  = 60
	width     = 1000.0
	around    = 500 * time.Millisecond
)

type view struct {
	Title    string
	Summary  string
	Pictures []string
	Shown    []scene
	More     int
}

type scene struct {
	promises.Violation

	From   string
	Bars   []bar
	Ticks  []tick
	Height int
}

type tick struct {
	X    float64
	Text string
}

// bar is one bar of a timeline: a request, a belief, or a fault.
type bar struct {
	Y            int
	X, W         float64
	Class, Label string
	Title        string
}

// Write writes index.html and porcupine's pictures to dir and returns the page's path.
func Write(dir, title string, run *promises.Run, v *promises.Verdict) (string, error) {
	out := view{Title: title, Summary: fmt.Sprintf("%d violations in %d requests", len(v.Violations), v.Requests)}
	for i, html := range v.Pictures {
		name := fmt.Sprintf("porcupine-%d.html", i+1)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(html), 0o600); err != nil {
			return "", err
		}
		out.Pictures = append(out.Pictures, name)
	}
	var start history.Time
	if len(run.Ops) > 0 {
		start = run.Ops[0].Invoked
	}
	shown := v.Violations[:min(len(v.Violations), mostShown)]
	for _, x := range shown {
		out.Shown = append(out.Shown, draw(run, x, start))
	}
	out.More = len(v.Violations) - len(shown)
	var html bytes.Buffer
	if err := page.Execute(&html, out); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "index.html")
	return path, os.WriteFile(path, html.Bytes(), 0o600)
}

// draw returns the timeline of one violation: its operations, others on the same
// semaphore at the time, and the faults.
func draw(run *promises.Run, x promises.Violation, start history.Time) scene {
	from, to := x.At.Add(-around), x.At.Add(around)
	for _, o := range x.Ops {
		from = min(from, o.Invoked)
		if o.Returned < x.At.Add(20*around) {
			to = max(to, o.Returned)
		}
	}
	from = max(from, x.At.Add(-40*around))
	s := scene{Violation: x, From: x.At.Sub(start).Round(time.Millisecond).String()}
	scale := width / float64(to.Sub(from))
	at := func(t history.Time) float64 { return float64(min(max(t, from), to).Sub(from)) * scale }
	add := func(a, b history.Time, class, label, title string) {
		s.Bars = append(s.Bars, bar{Y: 14 * len(s.Bars), X: at(a), W: max(at(b)-at(a), 1), Class: class, Label: label, Title: title})
	}
	for _, f := range run.Faults {
		if f.Until >= from && f.At <= to && len(s.Bars) < mostBars/2 {
			add(f.At, f.Until, "fault", f.Text, fmt.Sprintf("%s, process %d", f.Text, f.Target))
		}
	}
	for _, o := range run.Ops {
		mine := slices.Contains(x.Ops, o)
		if o.Name != x.Name || !mine && (len(s.Bars) >= mostBars || o.Invoked > to || max(o.Returned, o.Until) < from) {
			continue
		}
		row := len(s.Bars)
		label := fmt.Sprintf("p%d.%d %s ×%d %s", o.Proc, o.Op, o.Verb, o.Weight, o.Outcome)
		title := fmt.Sprintf("%s token %d slot %d; trusted until %v", label, o.Token, o.Slot, o.Until.Sub(start))
		class := "ask"
		if mine {
			class += " mine"
		}
		add(o.Invoked, o.Returned, class, label, title)
		if o.Held() {
			add(o.Returned, o.End(), "belief", "", title)
			s.Bars[row+1].Y = s.Bars[row].Y
		}
	}
	for _, b := range s.Bars {
		s.Height = max(s.Height, b.Y+28)
	}
	for i := range 11 {
		t := from.Add(time.Duration(i) * to.Sub(from) / 10)
		s.Ticks = append(s.Ticks, tick{at(t), t.Sub(start).Round(time.Millisecond).String()})
	}
	return s
}
