package run

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

func TestOrdinal(t *testing.T) {
	for n, want := range map[int]string{
		1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 102: "102nd", 111: "111th",
	} {
		if got := ordinal(n); got != want {
			t.Errorf("ordinal(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestLineText(t *testing.T) {
	for name, tt := range map[string]struct {
		place  *berth.Place
		weight int
		want   string
	}{
		"not asked yet":  {nil, 1, ""},
		"third":          {&berth.Place{Ahead: 2, Status: berth.Status{InUse: 5, Limit: 5}}, 1, "3rd in line, 5 of 5 in use"},
		"next":           {&berth.Place{Status: berth.Status{InUse: 5, Limit: 5}}, 1, "next in line, 5 of 5 in use"},
		"heavy":          {&berth.Place{Status: berth.Status{InUse: 3, Limit: 5}}, 3, "next in line, 3 of 5 in use"},
		"room for it":    {&berth.Place{Status: berth.Status{InUse: 1, Limit: 3}}, 1, "next in line, 1 of 3 in use"},
		"paused":         {&berth.Place{Status: berth.Status{InUse: 1, Limit: 3, Paused: true}}, 1, "paused by an operator, 1 of 3 in use"},
		"paused, full":   {&berth.Place{Ahead: 1, Status: berth.Status{InUse: 3, Limit: 3, Paused: true, Pinned: true}}, 1, "paused by an operator, 3 of 3 in use"},
		"pinned below":   {&berth.Place{Status: berth.Status{InUse: 2, Limit: 1, Pinned: true}}, 1, "next in line, 2 in use, limit 1, pinned by an operator"},
		"room behind it": {&berth.Place{Ahead: 2, Status: berth.Status{InUse: 1, Limit: 3}}, 1, "3rd in line, 1 of 3 in use"},
		"rated": {&berth.Place{Status: berth.Status{
			InUse: 1, Limit: berth.NoLimit, Unit: "tokens", Rate: 90, Window: time.Minute, Spent: 89, RetryAfter: 12 * time.Second,
		}}, 1, "next in line, 1 in use, 89 of 90 tokens spent in 1m0s, no room for 12s"},
		"rated, room": {&berth.Place{Ahead: 1, Status: berth.Status{
			InUse: 1, Limit: 1, Rate: 2, Window: time.Second, Burst: 40, Spent: 3, Pinned: true,
		}}, 1, "2nd in line, 1 in use, limit 1, pinned by an operator, 3 of a burst of 40 spent, 2 come back in 1s"},
		"frozen": {&berth.Place{Status: berth.Status{InUse: 0, Limit: 0}}, 1, "next in line, 0 of 0 in use"},
	} {
		now := time.Now()
		l := &line{cfg: Config{Weight: tt.weight, Health: &Health{}}, place: tt.place, heard: now}
		if got := l.text(now); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

// In an outage nobody is next in line.
func TestLineTellsAnOutage(t *testing.T) {
	health := &Health{}
	end := health.begin()
	l := &line{cfg: Config{Weight: 1, Health: health}, place: &berth.Place{Status: berth.Status{InUse: 5, Limit: 5}}}
	end(&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connect: connection refused")}, false)
	if got, want := l.text(time.Now()), "Redis away for 0.0s (connection refused)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	health.begin()(nil, false)
	if got, want := l.text(time.Now()), "next in line, 5 of 5 in use"; got != want {
		t.Errorf("when it is over: got %q, want %q", got, want)
	}
}

func TestStatusLineFits(t *testing.T) {
	const text = "3rd in line, 5 of 5 in use, waited 12s"
	for _, tt := range []struct {
		name    string
		columns int
		want    string
	}{
		{"api", 79, "berth: api: " + text},
		{strings.Repeat("x", 100), 60, "berth: xxxxxxxxxxxx…: " + text},
		{"github-api", 50, "github-api: " + text},
		{"github-api-of-the-second-department", 50, "github-ap…: " + text},
		{"github-api", 39, "github-…: 3rd in line, 5 of 5 in use, …"},
		{"日本語日本語", 50, "日本語日…: " + text},
	} {
		got := statusLine(tt.name, text, tt.columns)
		if got != tt.want || screen.Columns(got) > tt.columns {
			t.Errorf("%s in %d columns: %q, want %q", tt.name, tt.columns, got, tt.want)
		}
	}
}

// What serves the semaphore is known to live: that it does not answer is no outage.
func TestLineWaitsPatiently(t *testing.T) {
	health := &Health{}
	health.begin()(errors.New("connection refused"), false)
	l := &line{cfg: Config{Weight: 1, Health: health, Patient: true}}
	if got, want := l.text(time.Now()), "waiting for Redis for 0.0s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The newest place wins, and nobody is kept waiting.
func TestLatest(t *testing.T) {
	places := make(chan berth.Place, 1)
	f := latest(places)
	for ahead := range 5 {
		f(berth.Place{Ahead: ahead})
	}
	if p := <-places; p.Ahead != 4 {
		t.Errorf("got %d ahead, want the newest, 4", p.Ahead)
	}
}
