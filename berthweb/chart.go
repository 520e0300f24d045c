package berthweb

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthwatch"
)

// spark is a small chart of the demand in the last minute: permits in use plus waiters.
type spark struct{ Line, Label string }

const (
	sparkWidth, sparkHeight = 120, 18
	chartWidth, chartHeight = 600, 90
	// ownScale is how many times as many waiters as permits get a scale of their own: on one scale the
	// permits could not be seen.
	ownScale = 4
)

func sparkline(points []berthwatch.Point, now time.Time) spark {
	if len(points) == 0 {
		return spark{}
	}
	peak, most := int32(0), int32(1)
	for _, p := range points {
		peak, most = max(peak, p.InUse+p.Waiting), max(most, p.InUse+p.Waiting, p.Drawn())
	}
	last := points[len(points)-1]
	box := picture{now, time.Minute, sparkWidth, sparkHeight, most}
	return spark{
		Line:  box.path(points, true, demand),
		Label: fmt.Sprintf("Last minute: peak %d, last %d", peak, last.InUse+last.Waiting),
	}
}

// chart is a chart of some minutes: lines in a box of chartWidth by chartHeight.
type chart struct {
	Title                string
	Used, Limit, Waiting string // paths
	Most                 int32  // at the upper line
	MostWaiting          int32  // at the upper line of the waiters, if they have their own scale; 0: they do not
	From                 string // when the left edge is
	Minutes              int    // from there to now
	Now                  int64  // in ms; 0: there are no points
	Label                string // the same in words
}

func newChart(points []berthwatch.Point, now time.Time, span time.Duration, title, from string) chart {
	c := chart{Title: title, From: from, Minutes: int(span / time.Minute), Most: 1, Label: title + ": nothing is known yet"}
	var mostUsed, mostWaiting int32
	for _, p := range points {
		c.Most = max(c.Most, p.InUse, p.Drawn())
		mostUsed, mostWaiting = max(mostUsed, p.InUse), max(mostWaiting, p.Waiting)
	}
	if len(points) == 0 {
		return c
	}
	c.Now = now.UnixMilli()
	scale := max(c.Most, mostWaiting) // of the waiters
	if mostWaiting > ownScale*c.Most {
		c.MostWaiting = mostWaiting
	} else {
		c.Most = scale
	}
	box := picture{now, span, chartWidth, chartHeight, c.Most}
	c.Used = box.path(points, true, used)
	c.Limit = box.path(points, false, limit)
	box.most = scale
	c.Waiting = box.path(points, false, waiting)
	last := points[len(points)-1]
	c.Label = fmt.Sprintf("%s: in use at most %d, now %d; waiting at most %d, now %d", title, mostUsed, last.InUse, mostWaiting, last.Waiting)
	if !last.Idle && last.Limit != berth.NoLimit {
		c.Label += fmt.Sprintf("; limit %d", last.Limit)
	}
	return c
}

// picture is the area in which points are drawn.
type picture struct {
	now           time.Time
	span          time.Duration
	width, height int
	most          int32 // at the upper edge
}

// value is what is drawn of a point, and whether there is anything.
type value func(berthwatch.Point) (int32, bool)

func used(p berthwatch.Point) (int32, bool)    { return p.InUse, true }
func waiting(p berthwatch.Point) (int32, bool) { return p.Waiting, true }
func demand(p berthwatch.Point) (int32, bool)  { return p.InUse + p.Waiting, true }
func limit(p berthwatch.Point) (int32, bool)   { return p.Drawn(), !p.Idle && p.Limit == p.Drawn() }

// path draws a value over time, with a step at each change, as a line or as the area below
// it. There is a gap for times without samples, and where there is no value.
func (c *picture) path(points []berthwatch.Point, area bool, of value) string {
	var b strings.Builder
	base, lastY := c.height-1, 0
	for i, p := range points {
		v, is := of(p)
		if !is {
			continue
		}
		x := c.width - int((c.now.UnixMilli()-p.At)*int64(c.width)/c.span.Milliseconds())
		x = max(0, min(x, c.width))
		y := base - int(int64(v)*int64(c.height-c.height/10-2)/int64(c.most))
		begins, ends := !c.joined(points, i, of), !c.joined(points, i+1, of)
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
		lastY = y
	}
	return b.String()
}

// joined reports whether there is no gap between points i-1 and i.
func (c *picture) joined(points []berthwatch.Point, i int, of value) bool {
	gap := max(c.span.Milliseconds()/15, 10_000)
	if i == 0 || i == len(points) || points[i].At-points[i-1].At > gap {
		return false
	}
	_, before := of(points[i-1])
	_, here := of(points[i])
	return before && here
}
