package run

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
)

// maxNotice is the most time a command gets between TERM and KILL when its
// lease is about to be lost. It gets a quarter of the TTL if that is less.
const maxNotice = 10 * time.Second

// supervisor is the state of a running command. All of it belongs to the
// goroutine of supervise.
type supervisor struct {
	cfg   Config
	lease *berth.Lease
	proc  *job.Process
	tty   *job.Terminal

	trust time.Time       // the trust deadline, when last looked at
	asked bool            // INT or TERM was passed on; the next one kills
	lost  bool            // the lease is lost, or about to be
	gone  <-chan struct{} // the lease's end; nil once it is known
	timer *time.Timer     // the next look at the trust deadline
}

// supervise runs the command to its end.
func supervise(cfg Config, lease *berth.Lease) error {
	select {
	case sig := <-cfg.Signals: // it came while the permit did
		return exit.Signal(job.Number(sig))
	default:
	}
	tty := job.OpenTerminal()
	if tty != nil {
		defer tty.Close()
	}
	proc, err := start(cfg, lease, tty)
	if err != nil {
		return err
	}
	s := &supervisor{cfg: cfg, lease: lease, proc: proc, tty: tty, gone: lease.Context().Done()}
	s.timer = time.NewTimer(s.untilNotice())
	defer s.timer.Stop()
	if cfg.WarnOnly {
		s.timer.Stop() // nothing is done ahead of the loss
	}
	return s.loop()
}

func (s *supervisor) loop() error {
	control, stop := job.CatchJobControl()
	defer stop()
	for {
		select {
		case status, ok := <-s.proc.Events():
			if ok && status.Stopped() {
				s.stopped(status.StopSignal())
				continue
			}
			s.tty.Return(s.proc)
			return s.result(status)
		case sig := <-s.cfg.Signals:
			s.pass(sig)
		case sig := <-control:
			if sig == unix.SIGCONT {
				s.resume()
			} else {
				s.proc.Signal(job.Number(sig))
			}
		case <-s.gone:
			s.gone = nil
			s.lose(context.Cause(s.lease.Context()))
		case <-s.timer.C:
			s.deadline()
		}
	}
}

// pass hands a signal to the command's whole group. Whoever asks twice means it.
func (s *supervisor) pass(sig os.Signal) {
	if sig == unix.SIGINT || sig == unix.SIGTERM {
		if s.asked {
			s.proc.Signal(unix.SIGKILL)
			return
		}
		s.asked = true
	}
	s.proc.Signal(job.Number(sig))
}

// stopped deals with a suspended command, and with having been suspended.
func (s *supervisor) stopped(by unix.Signal) {
	if s.tty.Stopped(s.proc, by) {
		s.resume()
	}
}

// resume lets a suspended command go on, unless its lease ran out meanwhile:
// nobody renews it while berth is suspended too.
func (s *supervisor) resume() {
	if !s.lost && !s.lease.Valid() {
		s.deadline()
	}
	s.proc.Signal(unix.SIGCONT)
}

// untilNotice is the time until a command must be asked to end so that it can
// have ended at the trust deadline.
func (s *supervisor) untilNotice() time.Duration {
	if until := s.lease.ValidUntil(); !until.IsZero() {
		s.trust = until
	}
	return time.Until(s.trust) - min(s.cfg.TTL/4, maxNotice)
}

// deadline is called when, as of the last look, the lease was close to its
// trust deadline, which renewals keep moving.
func (s *supervisor) deadline() {
	switch {
	case !s.lost && s.untilNotice() > 0:
		s.timer.Reset(s.untilNotice())
	case !s.lost:
		s.lose(errors.New("its lease could not be renewed and is about to run out"))
	case time.Until(s.trust) > 0:
		s.timer.Reset(time.Until(s.trust))
	default:
		s.proc.Signal(unix.SIGKILL)
	}
}

// lose asks the command to end, and sees to it that it has at the trust
// deadline: TERM now, KILL then. A command that is only to be warned about
// keeps running without a permit.
func (s *supervisor) lose(cause error) {
	if !s.lost {
		s.lost = true
		s.warn(cause)
	}
	if s.cfg.WarnOnly {
		return
	}
	s.timer.Reset(max(0, time.Until(s.killAt(cause))))
}

// killAt is the trust deadline: now, if that is why the lease is lost. An
// evicted lease is over while its deadline is still ahead, and the operator who
// did not wait for the command has decided that it gets some time.
func (s *supervisor) killAt(cause error) time.Time {
	if errors.Is(cause, berth.ErrEvicted) {
		if latest := time.Now().Add(maxNotice); latest.Before(s.trust) {
			s.trust = latest
		}
		return s.trust
	}
	if until := s.lease.ValidUntil(); !until.IsZero() {
		s.trust = until // nobody has said yet that it is lost
	} else {
		s.trust = time.Now()
	}
	return s.trust
}

// warn tells the user, and the command unless it is to go on.
func (s *supervisor) warn(cause error) {
	what := "ending " + s.cfg.commandName()
	if s.cfg.WarnOnly {
		what = s.cfg.commandName() + " goes on without it"
	}
	s.cfg.Notices.Printf("%s: %s", what, strings.TrimPrefix(cause.Error(), "berth: "))
	if !s.cfg.WarnOnly {
		s.proc.Signal(unix.SIGTERM)
		s.proc.Signal(unix.SIGCONT) // a suspended command gets its TERM when it goes on
	}
}

// result is the command's own exit code, or what shells make of a signal.
func (s *supervisor) result(status unix.WaitStatus) error {
	switch {
	case s.lost && !s.cfg.WarnOnly:
		return exit.Code(exit.Lost)
	case status.Signaled():
		return exit.Signal(status.Signal())
	case status.ExitStatus() == 0:
		return nil
	default:
		return exit.Code(status.ExitStatus())
	}
}
