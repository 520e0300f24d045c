package demo

import (
	"fmt"
	"strings"
)

// Summary is what the demo has shown. Everything in it comes from the workers'
// own reports and from watching the queue, not from what Redis believes.
type Summary struct {
	Workers   int     `json:"workers"`
	Limit     int     `json:"limit"`
	Seconds   float64 `json:"seconds"`
	Grants    int     `json:"grants"`
	MostHeld  int     `json:"most_held"`
	LimitKept bool    `json:"limit_kept"`
	Waited    int     `json:"waited"`    // grants to workers that had been in line
	Overtaken int     `json:"overtaken"` // of them, by somebody who asked later
	OrderKept bool    `json:"order_kept"`
	// Hand-offs: from just before a release to the next holder at work.
	HandOffs     int     `json:"hand_offs"`
	HandOffP50MS float64 `json:"hand_off_p50_ms"`
	HandOffP99MS float64 `json:"hand_off_p99_ms"`
	Crash        *Crash  `json:"crash,omitempty"`
}

// Crash is the end of the worker that was killed while it held a permit.
type Crash struct {
	Worker      int     `json:"worker"`
	Slot        int     `json:"slot"`
	AtSeconds   float64 `json:"at_seconds"`
	CameBack    bool    `json:"came_back"`
	BackAfterMS float64 `json:"back_after_ms"` // until another worker was at work in its place
	BackTo      int     `json:"back_to"`
	TTLMS       float64 `json:"ttl_ms"`
}

// OK reports whether berth kept its promises.
func (s Summary) OK() bool {
	return s.LimitKept && s.OrderKept && s.Grants > 0 && (s.Crash == nil || s.Crash.CameBack)
}

// Text is the summary for people.
func (s Summary) Text() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-17s %s\n", name, fmt.Sprintf(format, args...))
	}
	b.WriteString("\nWhat the workers themselves report:\n\n")
	row("grants", "%d in %.1fs, to %d worker processes", s.Grants, s.Seconds, s.Workers)
	row("most held at once", "%d: limit %d %s", s.MostHeld, s.Limit, verdict(s.LimitKept, "kept", "EXCEEDED"))
	row("order", "%s: %d waited in line, %d overtaken", verdict(s.OrderKept, "kept", "BROKEN"), s.Waited, s.Overtaken)
	row("hand-off", "p50 %.1fms, p99 %.1fms, of %d: from giving back to the next at work",
		s.HandOffP50MS, s.HandOffP99MS, s.HandOffs)
	if c := s.Crash; c == nil {
		row("crash", "none: the demo ended before a worker was killed")
	} else {
		row("crash", "worker %d killed (-9) while it held slot %d", c.Worker, c.Slot)
		if c.CameBack {
			row("", "the permit was back %.2fs later, with worker %d (TTL %.1fs)", c.BackAfterMS/1000, c.BackTo, c.TTLMS/1000)
		} else {
			row("", "the permit was NOT SEEN TO COME BACK")
		}
	}
	return b.String()
}

func verdict(ok bool, good, bad string) string {
	if ok {
		return good
	}
	return bad
}
