package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/internal/chart"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/dev/lab/internal/stage"
	"github.com/berth-go/berth/internal/judge"
)

const (
	timelineWidth = 560.0
	lanesHeight   = 170.0
)

// newTimeline shows one algorithm's leases in one scenario: a curve of their number, and
// under it a lane for each client.
func newTimeline(r *stage.Result) *chart.Timeline {
	lanes := lanes(r)
	t := chart.NewTimeline(title(r.Title), r.Algorithm, r.Window, timelineWidth, len(lanes), min(14, lanesHeight/float64(max(1, len(lanes)))))
	t.Count(judge.Levels(r.Requests), r.Moments, r.Limit)
	for _, q := range slices.SortedStableFunc(slices.Values(r.Requests), func(a, b judge.Request) int { return cmp.Compare(a.Asked, b.Asked) }) {
		lane := slices.Index(lanes, q.Client)
		t.Bar(lane, judge.Span{From: q.Asked, To: q.Asked + q.Waited()}, "wait", "", "client %d waits %s", q.Client, took(q.Waited()))
		if q.Granted {
			t.Bar(lane, q.Stopped, "stopped", "", "stopped")
		}
		for _, s := range q.Beliefs() {
			t.Bar(lane, s, "held", "", "client %d holds for %s", q.Client, took(s.Length()))
			for _, m := range r.Moments {
				both := judge.Span{From: max(s.From, m.From), To: min(s.To, m.To)}
				t.Bar(lane, both, "over", "", "client %d holds, %d too many do", q.Client, m.By)
			}
		}
	}
	t.Caption = caption(r)
	t.Describe = fmt.Sprintf("Timeline of %s: %d moments over the limit in the run.", t.Title, len(r.Moments))
	return t
}

// lanes returns the clients that appear in the window, from top to bottom.
func lanes(r *stage.Result) (lanes []int) {
	for _, q := range r.Requests {
		if q.Asked < r.Window.To && q.End > r.Window.From && !slices.Contains(lanes, q.Client) {
			lanes = append(lanes, q.Client)
		}
	}
	slices.Sort(lanes)
	return lanes
}

func caption(r *stage.Result) string {
	length := r.Window.Length()
	switch run := time.Duration(r.Seconds * float64(time.Second)); {
	case length >= run-time.Millisecond:
		return "the whole run"
	case r.Waits != nil && r.Scenario == scenario.Fairness.Key:
		return "the first round"
	case len(r.Moments) > 0:
		return fmt.Sprintf("%d ms of the run, where it was worst", length.Milliseconds())
	default:
		return fmt.Sprintf("%d ms from the middle of the run", length.Milliseconds())
	}
}

func took(d time.Duration) string { return ms(stage.Millis(d)) }
