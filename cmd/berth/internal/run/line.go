package run

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// line is the status line that tells a user at a terminal why the command has not started
// yet. It is updated in place, and erased when the command starts.
type line struct {
	cfg   Config
	since time.Time
	place *berth.Place // nil while not in the queue
	told  bool         // the outage was written to a log
}

// tellAfter is how long an outage lasts before it is written to a log.
const tellAfter = 30 * time.Second

// draw shows the line. Where there is no terminal, it writes an outage to the log, once.
func (l *line) draw() {
	now := time.Now()
	since, _ := l.cfg.Health.Outage()
	if away := now.Sub(since); !since.IsZero() && away >= tellAfter && !l.told && !l.cfg.Quiet && !l.cfg.Notices.terminal {
		l.told = true
		l.cfg.Notices.Printf("Redis has not answered for %s; still waiting", screen.Age(away))
	}
	if text := l.text(now); text != "" {
		l.cfg.Notices.Status(l.cfg.Name, text+", waited "+screen.Age(now.Sub(l.since)))
	}
}

// text returns why there is no permit yet. It is empty until Redis has answered.
func (l *line) text(now time.Time) string {
	if since, why := l.cfg.Health.Outage(); !since.IsZero() {
		return fmt.Sprintf("Redis away for %s (%s)", screen.Age(now.Sub(since)), brief(why))
	}
	p := l.place
	if p == nil {
		return ""
	}
	where := "next in line"
	switch {
	case l.paused():
		where = "paused by an operator"
	case p.Ahead > 0:
		where = ordinal(p.Ahead+1) + " in line"
	}
	return fmt.Sprintf("%s, %d of %d in use", where, p.InUse, p.Limit)
}

// paused reports whether the first in the queue waits although there is room for it.
func (l *line) paused() bool {
	p := l.place
	return p != nil && p.Ahead == 0 && p.InUse+l.cfg.Weight <= p.Limit
}

// brief returns the end of a network error, which says what is wrong; the addresses before
// it are long.
func brief(err error) string {
	text := err.Error()
	return strings.TrimPrefix(text[strings.LastIndex(text, ": ")+1:], " ")
}

// ordinal returns 1st, 2nd, 3rd, 4th …
func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}
