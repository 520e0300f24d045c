package berthweb

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/berthwatch"
)

// TestManyWaitersDoNotHideThePermits: they have a scale of their own, and a label that says so.
func TestManyWaitersDoNotHideThePermits(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	draw := func(waiting int32) chart {
		points := []berthwatch.Point{{At: now.UnixMilli() - 2000, Limit: 5, InUse: 5}, {At: now.UnixMilli() - 1000, Limit: 5, InUse: 5, Waiting: waiting}}
		return newChart(points, now, 5*time.Minute, "Last 5 minutes", "5 min ago")
	}
	few, many := draw(20), draw(10_000)
	if few.Most != 20 || few.MostWaiting != 0 {
		t.Errorf("few: %+v", few)
	}
	if many.Most != 5 || many.MostWaiting != 10_000 || many.Used != draw(0).Used || !strings.Contains(many.Waiting, "V10") {
		t.Errorf("many: %+v", many)
	}
}

// TestChartHasNoLimitWhileIdle: the line of the limit has a gap there, and no fence of dashes, and
// the last value is not called 0.
func TestChartHasNoLimitWhileIdle(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	var points []berthwatch.Point
	for s := range int64(60) {
		p := berthwatch.Point{At: now.UnixMilli() - 1000*(60-s), Limit: 5, InUse: 2}
		if p.Idle = s >= 20 && s < 40; p.Idle {
			p.Limit, p.InUse = 0, 0
		}
		points = append(points, p)
	}
	c := newChart(points, now, 5*time.Minute, "Last 5 minutes", "5 min ago")
	if n := strings.Count(c.Limit, "M"); n != 2 || strings.Contains(c.Limit, "V") {
		t.Errorf("the limit is drawn as %q, want two level lines", c.Limit)
	}
	if n := strings.Count(c.Used, "M"); n != 1 {
		t.Errorf("use is drawn as %q, want one area", c.Used)
	}
	idle := newChart(points[:40], now, 5*time.Minute, "Last 5 minutes", "5 min ago")
	if strings.Contains(idle.Label, "limit") || !strings.HasSuffix(c.Label, "; limit 5") {
		t.Errorf("in words %q while idle, and %q afterwards", idle.Label, c.Label)
	}
}
