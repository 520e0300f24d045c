package storm

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/internal/chart"
	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/dev/verify/promises"
	"github.com/berth-go/berth/internal/judge"
)

//go:embed page.html
var pageText string

var page = chart.Page(pageText)

const (
	mostShown = 30 // violations with a timeline of their own
	mostRows  = 60
	around    = 500 * time.Millisecond
)

// view is the data of the page of a failed run.
type view struct {
	Title, Summary string
	Pictures       []string
	Shown          []*chart.Timeline
	More           int
}

// writePage writes index.html, with a timeline of what clients believed around each violation, and
// porcupine's pictures to dir and returns the page's path.
func writePage(dir, title string, run *promises.Run, v *promises.Verdict) (string, error) {
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

// draw returns the timeline of one violation: the faults, its operations, and others on the
// same semaphore at the time, each in a row.
func draw(run *promises.Run, x promises.Violation, start history.Time) *chart.Timeline {
	from, to := window(x)
	var faults []history.Event
	for _, f := range run.Faults {
		if f.Until >= from && f.At <= to && len(faults) < mostRows/2 {
			faults = append(faults, f)
		}
	}
	var ops []*promises.Op
	for _, o := range run.Ops {
		near := len(faults)+len(ops) < mostRows && o.Invoked <= to && max(o.Returned, o.Until) >= from
		if o.Name == x.Name && (near || slices.Contains(x.Ops, o)) {
			ops = append(ops, o)
		}
	}
	span := func(from, to history.Time) judge.Span {
		return judge.Span{From: time.Duration(from), To: time.Duration(max(to, from+1))}
	}
	t := chart.NewTimeline(fmt.Sprintf("%s at %v: %s: %s", x.Promise, x.At.Sub(start).Round(time.Millisecond), x.Name, x.Text), "berth",
		span(from, to), 1150, len(faults)+len(ops), 14)
	t.Caption = fmt.Sprintf("from %v on", from.Sub(start).Round(time.Millisecond))
	for row, f := range faults {
		t.Bar(row, span(f.At, f.Until), "fault", f.Text, "%s, process %d", f.Text, f.Target)
	}
	for i, o := range ops {
		class, label := "asked", fmt.Sprintf("p%d.%d %s ×%d %s", o.Proc, o.Op, o.Verb, o.Weight, o.Outcome)
		if slices.Contains(x.Ops, o) {
			class = "asked mine"
		}
		title := fmt.Sprintf("%s token %d slot %d; trusted until %v", label, o.Token, o.Slot, o.Until.Sub(start))
		if o.Held() {
			t.Bar(len(faults)+i, span(o.Returned, o.End()), "held", "", "%s", title)
		}
		t.Bar(len(faults)+i, span(o.Invoked, o.Returned), class, label, "%s", title)
	}
	return t
}

// window is the time around a violation and its operations that is shown.
func window(x promises.Violation) (from, to history.Time) {
	from, to = x.At.Add(-around), x.At.Add(around)
	for _, o := range x.Ops {
		from = min(from, o.Invoked)
		if o.Returned < x.At.Add(20*around) {
			to = max(to, o.Returned)
		}
	}
	return max(from, x.At.Add(-40*around)), to
}
