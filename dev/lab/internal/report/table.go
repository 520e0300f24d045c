package report

import (
	"fmt"
	"strings"

	"github.com/berth-go/berth/dev/internal/chart"
	"github.com/berth-go/berth/dev/lab/internal/stage"
)

// field is a figure of an algorithm with its name.
type field struct {
	head string
	chart.Cell
}

func plain(head, text string) field { return field{head, chart.Cell{Text: text}} }

func judged(head, text string, good bool) field { return field{head, chart.Judged(text, good)} }

// table returns the figures of a scenario. All its results have the same figures.
func table(list []*stage.Result) (t chart.Table) {
	for _, r := range list {
		t.Heads = nil
		row := chart.Row{Key: r.Algorithm, Title: r.Title}
		for _, f := range fields(r) {
			t.Heads = append(t.Heads, f.head)
			row.Cells = append(row.Cells, f.Cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func fields(r *stage.Result) []field {
	switch {
	case r.Growth != nil:
		return growthFields(r)
	case r.Crash != nil:
		return []field{
			overLimit(r), plain("STOLEN", chart.Group(r.Limits.Stolen)), plain("PERMITS BACK AFTER", backs(r)),
			judged("NEXT HELD UP", ms(r.Crash.StallMS), r.Crash.StallMS < r.TimeoutMS/2),
		}
	case r.Pause != nil:
		return []field{
			overLimit(r), plain("STOLEN", chart.Group(r.Limits.Stolen)), plain("OTHER GOT IT AFTER", ms(r.Pause.OthersMS)),
			plain("WENT ON FOR", ms(r.Pause.AwakeMS)), plain("ENDED BY", endedBy(r.Pause)),
		}
	case r.Cut != nil:
		return []field{
			overLimit(r), plain("STOLEN", chart.Group(r.Limits.Stolen)), plain("REQUEST LOST: BACK AFTER", ms(r.Cut.LostBackMS)),
			plain("REPLY LOST: BACK AFTER", ms(r.Cut.BackMS)),
			judged("WRONG REPORTS", fmt.Sprintf("%d of %d", r.Cut.Wrong, r.Cut.Replies), r.Cut.Wrong == 0),
		}
	default:
		return crowdFields(r)
	}
}

func overLimit(r *stage.Result) field {
	if r.Limits.Moments == 0 {
		return judged("OVER LIMIT", "never", true)
	}
	return judged("OVER LIMIT", fmt.Sprintf("%s (by %d)", times(r.Limits.Moments), r.Limits.WorstOver), false)
}

func crowdFields(r *stage.Result) []field {
	rate := fmt.Sprintf("%.0f", r.Rate.PerSecond)
	if r.Rate.Ideal > 0 {
		rate += " (" + percent(r.Rate.PerSecond/r.Rate.Ideal) + ")"
	}
	list := []field{
		overLimit(r), plain("OF TIME", percent(r.Limits.OverShare)),
		plain("STOLEN", chart.Group(r.Limits.Stolen)+" of "+chart.Group(r.Rate.Acquires)),
		plain("PER SECOND", rate), plain("COMMANDS", fmt.Sprintf("%.1f", r.Rate.Sent)),
	}
	if r.Rate.Executed != nil {
		list = append(list, plain("EXECUTED", fmt.Sprintf("%.1f", *r.Rate.Executed)))
	}
	overtaken := "none"
	if w := r.Waits; w.Overtaken > 0 {
		overtaken = fmt.Sprintf("%s (by %d)", percent(overtakenShare(w)), w.MostBy)
	}
	return append(list,
		plain("WAIT P50 / P99 / MAX", ms(r.Waits.P50MS)+" / "+ms(r.Waits.P99MS)+" / "+ms(r.Waits.MaxMS)),
		judged("OVERTAKEN", overtaken, r.Waits.Overtaken == 0))
}

func overtakenShare(w *stage.Waits) float64 {
	return float64(w.Overtaken) / float64(max(1, w.Requests))
}

func growthFields(r *stage.Result) (list []field) {
	for _, p := range r.Growth {
		s := micros(p.P50US)
		if p.ServerUS != nil {
			s += " (" + micros(*p.ServerUS) + " CPU)"
		}
		list = append(list, plain(chart.Group(p.Holders)+" HOLDERS", s))
	}
	return list
}

// backs says when the permits of crashed holders were in use again.
func backs(r *stage.Result) string {
	var s []string
	for _, b := range r.Crash.BackMS {
		s = append(s, fmt.Sprintf("%.0f", b))
	}
	return strings.Join(s, ", ") + " ms"
}

func endedBy(p *stage.Pause) string {
	switch {
	case p.Told:
		return "told of its loss"
	case p.Reported:
		return "release: all is well"
	default:
		return "release: had timed out"
	}
}
