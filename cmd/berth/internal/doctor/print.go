package doctor

import (
	"fmt"
	"strings"

	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// Text lays the report out for people, in lines of at most width columns: the findings, and
// below each that is not OK what to do. The words of servers, which may be anything, are
// cleaned. With color the statuses have colours.
func (r *Report) Text(width int, color bool) string {
	widest := 0
	for _, f := range r.Findings {
		widest = max(widest, len(f.Check))
	}
	indent := strings.Repeat(" ", len("FAIL  ")+widest+2)
	room := max(width-len(indent), 30)
	var b strings.Builder
	for _, f := range r.Findings {
		head := f.Status.paint(color) + strings.Repeat(" ", len("FAIL  ")-len(f.Status))
		fmt.Fprintf(&b, "%s%-*s  ", head, widest, f.Check)
		lines := screen.Wrap(screen.Clean(f.Found), room, 0)
		if f.Advice != "" {
			lines = append(lines, screen.Wrap("→ "+screen.Clean(f.Advice), room, 0)...)
		}
		b.WriteString(strings.Join(lines, "\n"+indent) + "\n")
	}
	fmt.Fprintf(&b, "\n%d OK, %d WARN, %d FAIL\n", r.OK, r.Warn, r.Fail)
	return b.String()
}

func (s Status) paint(color bool) string {
	if !color {
		return string(s)
	}
	code := map[Status]int{OK: 32, Warn: 33, Fail: 31}[s]
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", code, s)
}
