package demo

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/judge"
)

// Silent shows nothing.
type Silent struct{}

// Event implements View.
func (Silent) Event(*State, Event) {}

// Frame implements View.
func (Silent) Frame(*State) {}

// Plain shows a line for each event.
type Plain struct{ W io.Writer }

// Event implements View.
func (p Plain) Event(_ *State, e Event) { fmt.Fprintln(p.W, line(e)) }

// Frame implements View.
func (p Plain) Frame(*State) {}

func line(e Event) string {
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

// The looks of a line. Colours are added after a line was cut to the width.
const (
	plain = ""
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	reset = "\x1b[0m"
)

type styled struct{ look, text string }

const logLines = 6

// Event implements View.
func (v *Live) Event(s *State, e Event) {
	if e.Loud {
		v.Frame(s)
	}
}

// Frame implements View.
func (v *Live) Frame(s *State) {
	width, height, err := term.GetSize(int(v.File.Fd()))
	if err != nil || width < 1 || height < 2 {
		width, height = 80, 24
	}
	lines := picture(s, width-1)
	// What has scrolled off the top could not be redrawn.
	lines = lines[:min(len(lines), height-1)]
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\r\x1b[%dA", v.drawn)
	}
	for _, l := range lines {
		text := screen.Fit(l.text, width-1)
		if v.Color && l.look != plain {
			text = l.look + text + reset
		}
		b.WriteString(text + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	v.drawn = len(lines)
	_, _ = io.WriteString(v.File, b.String())
}

func picture(s *State, width int) []styled {
	now := s.now()
	lines := []styled{
		{bold, fmt.Sprintf("berth demo   %d worker processes, limit %d   %.1fs of %.0fs",
			s.cfg.Workers, s.cfg.Limit, min(now, s.cfg.For).Seconds(), s.cfg.For.Seconds())},
		{plain, ""},
	}
	for slot, h := range s.slots {
		lines = append(lines, slotLine(slot, h, now+s.begin, width))
	}
	lines = append(lines, styled{plain, ""}, styled{plain, queueLine(s)}, styled{plain, ""})
	last := s.log[max(0, len(s.log)-logLines):]
	for _, e := range last {
		look := dim
		if e.Loud {
			look = red
		}
		lines = append(lines, styled{look, line(e)})
	}
	for range logLines - len(last) {
		lines = append(lines, styled{})
	}
	return append(lines, styled{plain, ""}, styled{plain, score(s)})
}

func slotLine(slot int, h *hold, now time.Duration, width int) styled {
	head := fmt.Sprintf("  slot %d  ", slot)
	switch {
	case h == nil || h.End != 0 && !h.crashed:
		return styled{dim, head + "free"}
	case h.crashed:
		left := max(0, ttl-(now-h.End))
		return styled{red, fmt.Sprintf("%sworker %d  killed: its lease runs out within %.1fs", head, h.Client, left.Seconds())}
	}
	head += fmt.Sprintf("worker %-2d ", h.Client)
	return styled{green, head + bar(float64(now-h.Start)/float64(h.work), min(40, width-len(head)-1))}
}

func bar(share float64, width int) string {
	width = max(width, 1)
	full := min(width, max(0, int(share*float64(width))))
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

func queueLine(s *State) string {
	var names []string
	for _, worker := range s.tally.queue() {
		names = append(names, strconv.Itoa(worker))
	}
	return "  queue   " + strings.Join(names, " ← ")
}

func score(s *State) string {
	return fmt.Sprintf("  %d grants, at most %d held at once", len(s.tally.holds), judge.Limit(s.tally.requests(clock()), s.cfg.Limit).Held)
}
