package demo

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/judge"
)

// String returns the event as a line.
func (e Event) String() string {
	mark := " "
	if e.Loud {
		mark = "!"
	}
	return fmt.Sprintf("%6.2fs %s %s", e.At.Seconds(), mark, e.Text)
}

// Live redraws one picture in place.
type Live struct {
	File  *os.File
	Color bool
	drawn int // lines on the screen
}

// The looks of a line.
const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	reset = "\x1b[0m"
)

const (
	logLines = 6
	barWidth = 40
)

// Frame is a Config.Frame: it draws the picture over the last one.
func (v *Live) Frame(s *State) {
	width, height, err := term.GetSize(int(v.File.Fd()))
	if err != nil || width < 1 || height < 2 {
		width, height = 80, 24
	}
	lines := v.picture(s)
	// What has scrolled off the top could not be redrawn.
	lines = lines[:min(len(lines), height-1)]
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\r\x1b[%dA", v.drawn)
	}
	for _, line := range lines {
		b.WriteString(screen.Fit(line, width-1) + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	v.drawn = len(lines)
	_, _ = io.WriteString(v.File, b.String())
}

func (v *Live) picture(s *State) []string {
	lines := []string{v.paint(bold, "berth demo   %d worker processes, limit %d   %.1fs of %.0fs",
		s.cfg.Workers, s.cfg.Limit, min(clock()-s.begin, s.cfg.For).Seconds(), s.cfg.For.Seconds()), ""}
	for slot := range s.cfg.Limit {
		lines = append(lines, v.slot(s, slot))
	}
	queue := strings.Trim(fmt.Sprint(s.queue()), "[]")
	lines = append(lines, "", "  queue   "+strings.ReplaceAll(queue, " ", " ← "), "")
	last := s.log[max(0, len(s.log)-logLines):]
	for _, e := range last {
		look := dim
		if e.Loud {
			look = red
		}
		lines = append(lines, v.paint(look, "%v", e))
	}
	lines = append(lines, make([]string, logLines-len(last))...)
	most := judge.Limit(s.requests(clock()), s.cfg.Limit).Held
	return append(lines, "", fmt.Sprintf("  %d grants, at most %d held at once", len(s.holds), most))
}

func (v *Live) slot(s *State, slot int) string {
	h, now := s.inSlot(slot), clock()
	switch {
	case h != nil && h == s.crashed:
		left := max(0, ttl-(now-h.End))
		return v.paint(red, "  slot %d  worker %d  killed: its lease runs out within %.1fs", slot, h.Client, left.Seconds())
	case h == nil || h.End != 0:
		return v.paint(dim, "  slot %d  free", slot)
	}
	full := min(barWidth, int(barWidth*(now-h.Start)/h.work))
	bar := strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
	return v.paint(green, "  slot %d  worker %-2d %s", slot, h.Client, bar)
}

func (v *Live) paint(look, format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if !v.Color {
		return text
	}
	return look + text + reset
}
