package lab

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// newProgress returns one line that changes on a terminal, and elsewhere a line
// for each scenario.
func newProgress(w io.Writer) Progress {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		return &liveProgress{f}
	}
	return &plainProgress{w: w}
}

type liveProgress struct{ f *os.File }

const barWidth = 24

// Step implements Progress.
func (p *liveProgress) Step(n, all int, scenario, algorithm string) {
	full := (n - 1) * barWidth / all
	line := fmt.Sprintf("%s%s %d/%d %s: %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), n, all, scenario, algorithm)
	fmt.Fprintf(p.f, "\r\x1b[K%s", screen.Fit(line, screen.Width(p.f)-1))
}

// Done implements Progress.
func (p *liveProgress) Done() { fmt.Fprint(p.f, "\r\x1b[K") }

type plainProgress struct {
	w    io.Writer
	last string
}

// Step implements Progress.
func (p *plainProgress) Step(n, all int, scenario, _ string) {
	if scenario != p.last {
		fmt.Fprintf(p.w, "berth lab: %s (%d of %d)\n", scenario, n, all)
	}
	p.last = scenario
}

// Done implements Progress.
func (p *plainProgress) Done() {}
