package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
)

// maxNotice bounds the time between TERM and KILL for a command whose lease is about to be
// lost. The command gets a quarter of the TTL, or of MaxHold, if that is less.
const maxNotice = 10 * time.Second

// killPause is the time between two attempts to kill what a command has started.
const killPause = 100 * time.Millisecond

// supervisor is the state of a running command. Only the goroutine of supervise uses it.
type supervisor struct {
	cfg   Config
	lease *berth.Lease
	proc  *job.Process
	child <-chan os.Signal // CHLD
	jobs  <-chan os.Signal // those of job control

	status *unix.WaitStatus // how the command ended, once it has
	trust  time.Time        // the trust deadline, when last looked at
	ends   time.Time        // when the command is to end by MaxHold, if it has one
	lost   bool             // the lease is lost, or about to be
	gone   <-chan struct{}  // the lease's end; nil once it is known
	timer  *time.Timer      // the next look at the trust deadline
}

// supervise runs the command to its end, if it can be started.
func supervise(cfg Config, lease *berth.Lease) (started bool, err error) {
	if err := ready(cfg, lease); err != nil {
		return false, err
	}
	child, jobs := job.CatchControl() // not before: until now Ctrl-Z is for this process
	defer signal.Stop(child)
	defer signal.Stop(jobs)
	proc, err := job.Start(cfg.Path, cfg.Command, cfg.environment(lease), !cfg.WarnOnly)
	if err != nil {
		return false, err
	}
	job.StayAwake()
	s := &supervisor{
		cfg: cfg, lease: lease, proc: proc, child: child, jobs: jobs, gone: lease.Context().Done(), ends: time.Now().Add(cfg.MaxHold),
	}
	s.timer = time.NewTimer(s.untilNotice())
	defer s.timer.Stop()
	if cfg.WarnOnly {
		s.timer.Stop() // nothing is done ahead of the loss
	}
	return true, s.loop()
}

func (s *supervisor) loop() error {
	for {
		select {
		case <-s.child:
			if s.collect() {
				return s.result()
			}
		case sig := <-s.cfg.Signals:
			s.pass(sig)
		case sig := <-s.jobs:
			if sig == unix.SIGCONT {
				s.resume()
			} else {
				s.pass(sig)
			}
		case <-s.gone:
			s.gone = nil
			s.lose(context.Cause(s.lease.Context()))
		case <-s.timer.C:
			if s.deadline() {
				return s.result()
			}
		}
	}
}

// collect notes what has happened to the command, and reports whether all is over: with the
// command's end or, if the lease is lost, with the end of all processes that it has started.
func (s *supervisor) collect() (over bool) {
	if status, changed := s.proc.Collect(); changed && status.Stopped() {
		s.stopped()
	} else if changed {
		s.status = &status
	}
	return s.status != nil && (!s.ending() || s.proc.Alone())
}

// ending reports whether nothing of the command may outlive the lease.
func (s *supervisor) ending() bool { return s.lost && !s.cfg.WarnOnly }

// pass passes a signal on to the command, unless the command already has it. A signal that
// ends processes goes to the command's children, too, as from a terminal: if only a shell
// ended, its children would go on without a permit. The meaning of other signals is known
// only to the command.
func (s *supervisor) pass(sig os.Signal) {
	switch {
	case job.FromKeys(sig):
	case sig == unix.SIGHUP, sig == unix.SIGINT, sig == unix.SIGQUIT, sig == unix.SIGTERM:
		s.proc.SignalAll(job.Number(sig))
	default:
		s.proc.Signal(job.Number(sig))
	}
}

// stopped stops this process together with the command, unless the command has been
// continued meanwhile.
func (s *supervisor) stopped() {
	if !s.proc.Stopped() {
		return
	}
	for len(s.jobs) > 0 {
		<-s.jobs // a CONT from before this stop must not undo it
	}
	job.StopToo()
}

// resume continues a suspended command, unless its lease has expired meanwhile: it is not
// renewed while berth is suspended, too.
func (s *supervisor) resume() {
	if !s.lost && !s.lease.Valid() {
		s.deadline()
	}
	s.proc.Continue()
}

// untilNotice returns the time until the command must be asked to end, for it to have ended
// at the trust deadline.
func (s *supervisor) untilNotice() time.Duration {
	if until := s.lease.ValidUntil(); !until.IsZero() {
		s.trust = until
	}
	until := time.Until(s.trust) - s.notice()
	if s.cfg.MaxHold > 0 {
		until = min(until, time.Until(s.ends))
	}
	return until
}

// notice returns how long before the trust deadline the command is asked to end.
func (s *supervisor) notice() time.Duration { return notice(s.cfg.TTL, s.cfg.MaxHold) }

func notice(ttl, maxHold time.Duration) time.Duration {
	lasts := ttl
	if maxHold > 0 {
		lasts = min(lasts, maxHold)
	}
	return min(lasts/4, maxNotice)
}

// LeaseMaxHold is the MaxHold of the lease of a command that is asked to end maxHold after its start:
// so much more that it can do so before the trust deadline, which is up to a hundredth of a TTL before
// the lease's end. A maxHold that a lease cannot have is returned as it is.
func LeaseMaxHold(ttl, maxHold time.Duration) time.Duration {
	if maxHold < berth.MinTTL || maxHold > berth.MaxTTL {
		return maxHold
	}
	lasts := maxHold + notice(ttl, maxHold)
	return min(lasts+min(lasts, ttl)/50+10*time.Millisecond, berth.MaxTTL)
}

// runsOut returns why the lease is about to expire, or has expired while berth was suspended.
// Within a TTL of the end of MaxHold, a renewal could not have extended it by a whole TTL.
func (s *supervisor) runsOut() error {
	away, _ := s.cfg.Health.Outage()
	if s.cfg.MaxHold > 0 && away.IsZero() && time.Until(s.ends) < s.cfg.TTL {
		return fmt.Errorf("it reaches its --max-hold of %v", s.cfg.MaxHold)
	}
	if time.Until(s.trust) <= 0 {
		return errors.New("its lease could not be renewed and has expired")
	}
	return errors.New("its lease could not be renewed and is about to expire")
}

// deadline is called when the lease was close to its trust deadline at the last look;
// renewals may have extended it. It reports whether all is over: it does not wait for
// processes that could not be killed.
func (s *supervisor) deadline() (over bool) {
	switch {
	case !s.lost && s.untilNotice() > 0:
		s.timer.Reset(s.untilNotice())
	case !s.lost:
		s.lose(s.runsOut())
	case time.Until(s.trust) > 0:
		s.timer.Reset(time.Until(s.trust))
	default:
		s.proc.KillAll()
		if s.status == nil { // not yet collected; what cannot be killed is not waited for
			s.timer.Reset(killPause)
		}
		return s.status != nil
	}
	return false
}

// lose asks the command to end, and makes sure that it has ended at the trust deadline: TERM
// now, KILL then. That is at once if the deadline is why the lease is lost; after an eviction
// the command gets up to maxNotice. With WarnOnly it keeps running without a permit. The user is
// told last: nothing that is said may delay a signal.
func (s *supervisor) lose(cause error) {
	text := lostText(cause, s.trust) // as long as that is the lease's own deadline
	if !s.cfg.WarnOnly {
		s.end(cause)
	}
	if !s.lost {
		s.warn(text)
	}
	s.lost = true
}

// end sends TERM, once, and sets the timer for KILL.
func (s *supervisor) end(cause error) {
	if !s.lost {
		s.proc.SignalAll(unix.SIGTERM)
		s.proc.SignalAll(unix.SIGCONT) // what is suspended gets its TERM when it goes on
	}
	until, latest := s.lease.ValidUntil(), time.Now().Add(maxNotice)
	switch evicted := errors.Is(cause, berth.ErrEvicted); {
	case evicted && latest.Before(s.trust):
		s.trust = latest
	case evicted:
	case until.IsZero():
		s.trust = time.Now()
	default:
		s.trust = until // nobody has said yet that it is lost
	}
	s.timer.Reset(time.Until(s.trust))
}

// warn tells the user what is lost and what comes of it.
func (s *supervisor) warn(text string) {
	what := "ending " + s.cfg.commandName()
	if s.cfg.WarnOnly {
		what = s.cfg.commandName() + " goes on without it"
	}
	s.cfg.Notices.Printf("%s: %s", what, text)
}

// result is the command's own exit code, or what shells make of a signal.
func (s *supervisor) result() error {
	switch status := s.status; {
	case s.ending():
		return exit.Code(exit.Lost)
	case status.Signaled():
		return exit.Signal(status.Signal())
	case status.ExitStatus() == 0:
		return nil
	default:
		return exit.Code(status.ExitStatus())
	}
}
