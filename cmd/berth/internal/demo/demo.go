// Package demo shows berth at work: worker processes contend for a few permits, one of them
// is killed while it holds a permit, and the permit comes back.
//
// The store is an embedded one, in the demo's own process, on a unix socket. The workers are
// real processes that share nothing but that socket. The picture and the summary are made
// from their own reports.
package demo

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth/cmd/berth/internal/local"
)

const (
	// frame is the time between two pictures.
	frame = 80 * time.Millisecond
	// killAfter is when a worker is killed, as a fraction of the demo: early enough for the
	// permit to come back, late enough for a queue to have formed.
	killAfter = 0.35
	// farewell is how long the workers have to end by themselves.
	farewell = 2 * time.Second
	// overtime is how much longer than asked for the demo lasts if the killed
	// worker's permit has not come back yet: on a machine that is busy.
	overtime = 20 * time.Second
)

// Config is one demo.
type Config struct {
	Workers int
	Limit   int
	For     time.Duration
	// Worker returns the command of a worker process, which calls Work with
	// what the arguments say.
	Worker func(args ...string) *exec.Cmd
	View   View
}

// View shows what happens while it happens.
type View interface {
	// Event is called for each event, in the order of arrival.
	Event(s *State, e Event)
	// Frame is called some times per second.
	Frame(s *State)
}

// Event is something that happened, in words.
type Event struct {
	At   time.Duration // since the beginning
	Text string
	Loud bool // not everyday
}

// Run runs the demo to its end, or until ctx ends, and returns what it showed.
func Run(ctx context.Context, cfg Config) (Summary, error) {
	dir, err := os.MkdirTemp("", "berth-demo-")
	if err != nil {
		return Summary{}, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	socket := filepath.Join(dir, "sock")
	server, err := local.Listen(socket)
	if err != nil {
		return Summary{}, err
	}
	defer server.Close()

	workers, err := startWorkers(cfg, socket)
	if err != nil {
		return Summary{}, err
	}
	defer workers.stop(farewell)
	return watch(ctx, cfg, workers)
}

// watch follows the workers until the demo's time is over and the permit of the killed worker
// has come back.
func watch(ctx context.Context, cfg Config, workers *workers) (Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.For+overtime)
	defer cancel()
	s := newState(cfg)
	tick := time.NewTicker(frame)
	defer tick.Stop()
	killer := time.NewTimer(time.Duration(killAfter * float64(cfg.For)))
	defer killer.Stop()
	over := time.After(cfg.For)
	for {
		select {
		case e := <-workers.events:
			s.handle(e, cfg.View)
		case <-tick.C:
			cfg.View.Frame(s)
		case <-killer.C:
			if !s.killOne(workers, cfg.View) {
				killer.Reset(20 * time.Millisecond) // nobody is in the middle of their work
			}
		case <-over:
			over = nil
		case <-ctx.Done():
			end := clock()
			for _, e := range workers.stop(farewell) {
				s.tally.add(e)
			}
			clear(s.tally.line) // nobody waits any more
			cfg.View.Frame(s)
			return s.tally.summary(s.begin, end, cfg.Limit, cfg.Workers), workers.failure()
		}
		if over == nil && s.tally.cameBack() {
			cancel()
		}
	}
}

// workerArgs are the arguments of a worker process.
func workerArgs(cfg Config, socket string, number int) []string {
	u := url.URL{Scheme: "unix", Path: socket}
	return []string{
		"--redis", strings.ReplaceAll(u.String(), "@", "%40"),
		"--limit", strconv.Itoa(cfg.Limit), "--number", strconv.Itoa(number),
	}
}

// Print writes the summary for people.
func (s Summary) Print(w io.Writer) error {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-17s %s\n", name, fmt.Sprintf(format, args...))
	}
	b.WriteString("\nWhat the workers themselves report:\n\n")
	row("grants", "%d in %.1fs, to %d worker processes", s.Grants, s.Seconds, s.Workers)
	row("most held at once", "%d: limit %d %s", s.MostHeld, s.Limit, verdict(s.LimitKept, "kept", "EXCEEDED"))
	row("order", "%s: %d waited in line, %d overtaken", verdict(s.OrderKept, "kept", "BROKEN"), s.Waited, s.Overtaken)
	row("hand-off", "p50 %.1fms, p99 %.1fms, of %d: from giving back to the next at work",
		s.HandOffP50MS, s.HandOffP99MS, s.HandOffs)
	if c := s.Crash; c == nil {
		row("crash", "none: the demo ended before a worker was killed")
	} else if c.CameBack {
		row("crash", "worker %d killed (-9) while it held slot %d", c.Worker, c.Slot)
		row("", "the permit was back %.2fs later, with worker %d (TTL %.1fs)",
			c.BackAfterMS/1000, c.BackTo, c.TTLMS/1000)
	} else {
		row("crash", "worker %d killed (-9) while it held slot %d", c.Worker, c.Slot)
		row("", "the permit was NOT SEEN TO COME BACK")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func verdict(ok bool, good, bad string) string {
	if ok {
		return good
	}
	return bad
}
