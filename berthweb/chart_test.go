package berthweb

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/berthwatch"
)

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
