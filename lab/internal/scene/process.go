package scene

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/internal/child"
)

// holderTimeout bounds what a holder process may take to report.
const holderTimeout = 15 * time.Second

// holder is a holder process, as its parent sees it.
type holder struct{ *child.Process }

// hire starts a holder process, which works from its grant until it is told to finish,
// and for d after that.
func (s *stage) hire(d time.Duration, dieAfter int) (*holder, error) {
	p, err := child.Again(Role, order{
		URL: s.env.URL, Algorithm: s.alg.Key, Setup: s.setup(nil, 0), Poll: s.env.Poll, Work: d, DieAfter: dieAfter,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start a holder process: %w", err)
	}
	return &holder{p}, nil
}

// next returns the process's next report.
func (h *holder) next() (r report, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), holderTimeout)
	defer cancel()
	if err := h.Hear(ctx, &r); err != nil {
		return r, fmt.Errorf("a holder process does not report: %w", err)
	}
	if r.Error != "" {
		return r, fmt.Errorf("a holder process failed: %s", r.Error)
	}
	return r, nil
}

// finish tells the process to finish.
func (h *holder) finish() error { return h.Tell(struct{}{}) }

func (h *holder) signal(sig unix.Signal) error { return h.Cmd.Process.Signal(sig) }
