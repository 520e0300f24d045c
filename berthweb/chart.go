package berthweb

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-go/berth/berthwatch"
)

// spark is a small chart of the demand in the last minute: permits in use plus waiters.
type spark struct{ Line, Label string }

const (
	sparkWidth, sparkHeight = 120, 18
	chartWidth, chartHeight = 600, 90
)

func sparkline(points []berthwatch.Point, now time.Time) spark {
	if len(points) == 0 {
		return spark{}
	}
	peak, most := int32(0), int32(1)
	for _, p := range points {
		peak, most = max(peak, p.InUse+p.Waiting), max(most, p.InUse+p.Waiting, p.Limit)
	}
	last := points[len(points)-1]
	box := picture{now, time.Minute, sparkWidth, sparkHeight, most}
	return spark{
		Line:  box.path(points, true, func(p berthwatch.Point) int32 { return p.InUse + p.Waiting }),
		Label: fmt.Sprintf("Last minute: peak %d, last %d", peak, last.InUse+last.Waiting),
	}
}

// chart is a chart of some minutes: lines in a box of chartWidth by chartHeight.
type chart struct {
	Title                string
	Used, Limit, Waiting string // paths
	Most                 int32  // at the upper edge
	From                 string // when the left edge is
	Label                string // the same in words
}

func newChart(points []berthwatch.Point, now time.Time, span time.Duration, title, from string) chart {
	c := chart{Title: title, From: from, Most: 1, Label: title + ": nothing is known yet"}
	var used, waiting int32
	for _, p := range points {
		c.Most = max(c.Most, p.InUse, p.Waiting, p.Limit)
		used, waiting = max(used, p.InUse), max(waiting, p.Waiting)
	}
	if len(points) == 0 {
		return c
	}
	box := picture{now, span, chartWidth, chartHeight, c.Most}
	c.Used = box.path(points, true, func(p berthwatch.Point) int32 { return p.InUse })
	c.Limit = box.path(points, false, func(p berthwatch.Point) int32 { return p.Limit })
	c.Waiting = box.path(points, false, func(p berthwatch.Point) int32 { return p.Waiting })
	last := points[len(points)-1]
	c.Label = fmt.Sprintf("%s: in use at most %d, now %d; waiting at most %d, now %d; limit %d", title, used, last.InUse, waiting, last.Waiting, last.Limit)
	return c
}

// picture is the area in which points are drawn.
type picture struct {
	now           time.Time
	span          time.Duration
	width, height int
	most          int32 // at the upper edge
}

// path draws a value over time, with a step at each change, as a line or as the area below
// it. There is a gap for times without samples.
func (c *picture) path(points []berthwatch.Point, area bool, value func(berthwatch.Point) int32) string {
	var b strings.Builder
	gap := max(c.span.Milliseconds()/15, 10_000)
	base := c.height - 1
	lastY, lastAt := 0, int64(0)
	for i, p := range points {
		x := c.width - int((c.now.UnixMilli()-p.At)*int64(c.width)/c.span.Milliseconds())
		x = max(0, min(x, c.width))
		y := base - int(int64(value(p))*int64(c.height-c.height/10-2)/int64(c.most))
		begins := i == 0 || p.At-lastAt > gap
		ends := i == len(points)-1 || points[i+1].At-p.At > gap
		switch {
		case begins && area:
			fmt.Fprintf(&b, "M%d,%dV%d", x, base, y)
		case begins:
			fmt.Fprintf(&b, "M%d,%d", x, y)
		case y != lastY:
			fmt.Fprintf(&b, "H%dV%d", x, y)
		case ends:
			fmt.Fprintf(&b, "H%d", x)
		}
		if ends && area {
			fmt.Fprintf(&b, "V%dZ", base)
		}
		lastY, lastAt = y, p.At
	}
	return b.String()
}
