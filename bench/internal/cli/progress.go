package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/berth-go/berth/bench/internal/scene"
)

// progress tells on stderr what goes on: on a terminal in one line that
// changes, elsewhere in a line for each round.
type progress struct {
	w    io.Writer
	live bool
	last string
	then time.Time
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.live = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return p
}

func (p *progress) step(s scene.Step) {
	left := ""
	if s.Left > 0 {
		left = ", about " + s.Left.Round(time.Second).String() + " left"
	}
	round := "setting up"
	if s.Round > 0 {
		round = fmt.Sprintf("round %d of %d", s.Round, s.Rounds)
	}
	if p.live {
		fmt.Fprintf(p.w, "\r\x1b[K%.100s", fmt.Sprintf("%s %s, %s: %s%s", s.Scenario, s.Case, round, s.Peer, left))
		return
	}
	// Not more than a line a second, but for what is new.
	if now := s.Scenario + " " + s.Case; now != p.last || s.Round > 0 && time.Since(p.then) > time.Second {
		p.last, p.then = now, time.Now()
		fmt.Fprintf(p.w, "bench: %s, %s: %s%s\n", now, round, s.Peer, left)
	}
}

func (p *progress) done() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
