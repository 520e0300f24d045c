package run

import (
	"fmt"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// line is the one line that tells somebody at a terminal why nothing happens
// yet. It is overwritten in place and gone when the command starts.
type line struct {
	notices *Notices
	name    string
	since   time.Time
	place   *berth.Place // nil while not in the queue
}

func newLine(cfg Config) *line {
	return &line{notices: cfg.Notices, name: cfg.Name, since: time.Now()}
}

// ticks returns the clock that keeps the time waited up to date.
func (l *line) ticks() *time.Ticker { return time.NewTicker(time.Second) }

func (l *line) show(p berth.Place) {
	l.place = &p
	l.draw()
}

func (l *line) draw() {
	if l.place == nil {
		return
	}
	l.notices.Status(screen.Clean(l.text(time.Since(l.since))))
}

func (l *line) text(waited time.Duration) string {
	p := l.place
	where := "next in line"
	if p.Ahead > 0 {
		where = fmt.Sprintf("%s in line", ordinal(p.Ahead+1))
	}
	return fmt.Sprintf("berth: %s: %s, %d of %d in use, waited %s",
		l.name, where, p.InUse, p.Limit, screen.Age(waited))
}

func (l *line) erase() { l.notices.Erase() }

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
