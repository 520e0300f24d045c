package scene

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// holderPatience bounds what a holder process may take to report.
const holderPatience = 15 * time.Second

// holder is a holder process, seen from outside.
type holder struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	reports chan report // closed at the end of the process
}

// hire starts a holder process, which works once it has a permit, and for d more when
// it is told to finish.
func (s *stage) hire(d time.Duration, dieAfter int) (*holder, error) {
	cmd := s.env.Process()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = ownGroup()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start a holder process: %w", err)
	}
	h := &holder{cmd: cmd, stdin: stdin, reports: make(chan report, 4)}
	go h.listen(stdout)
	err = json.NewEncoder(stdin).Encode(order{
		URL: s.env.URL, Prefix: s.env.Prefix, Name: s.name, Algorithm: s.alg.Key, Limit: s.limit,
		Timeout: s.timeout, Poll: s.env.Poll, Work: d, DieAfter: dieAfter,
	})
	if err != nil {
		h.dismiss()
		return nil, fmt.Errorf("cannot tell a holder process what to do: %w", err)
	}
	return h, nil
}

// listen passes reports on until the process has ended.
func (h *holder) listen(stdout io.Reader) {
	defer close(h.reports)
	in := json.NewDecoder(stdout)
	for {
		var r report
		if in.Decode(&r) != nil {
			break
		}
		h.reports <- r
	}
	_ = h.cmd.Wait() // most of them are killed
}

// next returns the process's next report.
func (h *holder) next() (report, error) {
	select {
	case r, ok := <-h.reports:
		if !ok {
			return r, errors.New("a holder process ended without a word")
		}
		if r.Error != "" {
			return r, fmt.Errorf("a holder process failed: %s", r.Error)
		}
		return r, nil
	case <-time.After(holderPatience):
		return report{}, errors.New("a holder process does not report")
	}
}

// gone waits until the process has ended by itself.
func (h *holder) gone() error {
	for {
		select {
		case r, ok := <-h.reports:
			if !ok {
				return nil
			}
			if r.Error != "" {
				return fmt.Errorf("a holder process failed: %s", r.Error)
			}
		case <-time.After(holderPatience):
			return errors.New("a holder process does not end")
		}
	}
}

// finish tells the process that its last stretch of work begins.
func (h *holder) finish() error {
	_, err := io.WriteString(h.stdin, "{}\n")
	return err
}

func (h *holder) signal(sig unix.Signal) error { return h.cmd.Process.Signal(sig) }

// dismiss kills the process, whatever state it is in, and buries it.
func (h *holder) dismiss() {
	// The end of its input would have it leave in good order, so that comes last.
	_ = h.cmd.Process.Kill()
	_ = h.stdin.Close()
	for range h.reports {
		continue // until the process has ended
	}
}
