// Package run runs a command while a permit is held: it waits, starts the
// command, passes signals on to it, ends it when the lease is lost, and gives
// the permit back when it has ended.
package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// flushPause is how long the command's start waits for notices to be written.
const flushPause = 100 * time.Millisecond

// Config is one run.
type Config struct {
	Name    string   // of the semaphore
	Path    string   // of the program, from job.Lookup
	Command []string // with the program's name as the user wrote it
	TTL     time.Duration
	MaxHold time.Duration // when the command is asked to end; its lease has LeaseMaxHold; 0: never
	Weight  int
	// Wait bounds the whole wait for the permit, including an outage of Redis. 0 waits for
	// ever, but fails if Redis cannot be reached at the beginning.
	Wait time.Duration
	// Once: Acquire does not wait in the queue, and returns within Wait.
	Once bool
	// Patient: what serves the semaphore is known to live, so that no answer is no reason to
	// end the wait.
	Patient bool
	// Acquire gets the permit. It ends when ctx does, and calls queued, if it waits in the
	// queue, with each new place.
	Acquire func(ctx context.Context, queued func(berth.Place)) (*berth.Lease, error)
	// Saw is what was observed of the last Acquire; for Observe.
	Saw func() berth.Observation
	// Why tells who paused or pinned the semaphore where the request waits, and why; "" if that
	// is not known. nil: it is never known.
	Why func(ctx context.Context, place berth.Place) string
	// Health is a hook of the Redis client of Acquire and Ping.
	Health *Health
	Ping   func(ctx context.Context) error
	// NotAcquired is the exit code when there was no permit in time.
	NotAcquired int
	// Quiet shows no status, and prints nothing when there was no permit in time.
	Quiet bool
	// WarnOnly leaves the command running when the lease is lost.
	WarnOnly bool
	// HideURL keeps the Redis URL out of the command's environment.
	HideURL bool
	// Signals are the fatal signals of this process; see job.Catch.
	Signals <-chan os.Signal
	// Notices is where messages to the user go.
	Notices *Notices
}

// mostLate is how many leases in a row may be lost before the command could be started.
const mostLate = 10

// Run waits for a permit, runs the command, and returns the error with berth's exit code. The
// permit has been released by then. A lease that is lost before the command was started has
// done no harm: while there is time, Run waits for another one.
//
// It must be called on a thread that lives as long as the process, because the system ends
// the command together with the thread that started it.
func Run(cfg Config) error {
	over := time.Now().Add(cfg.Wait)
	for round := 1; ; round++ {
		lease, err := Wait(cfg)
		if err != nil {
			return err
		}
		started, err := supervise(cfg, lease)
		if started {
			return finish(cfg, lease, err)
		}
		abandon(lease)
		left, more := cfg.until(over)
		if round == mostLate || !errors.As(err, new(late)) || !more {
			return err
		}
		cfg.Wait = left
	}
}

// until returns the wait that ends at over, and whether there is anything left of it.
func (cfg Config) until(over time.Time) (left time.Duration, more bool) {
	if cfg.Wait == 0 {
		return 0, true
	}
	left = time.Until(over)
	return left, left > 0
}

// finish gives back the lease of a command that has ended with err.
func finish(cfg Config, lease *berth.Lease, err error) error {
	if exit.Of(err) == exit.Lost { // err tells it all
		abandon(lease)
		return err
	}
	if lost := giveBack(cfg, lease); lost && !cfg.WarnOnly {
		return exit.Code(exit.Lost)
	}
	return err
}

// abandon releases a lease of which there is nothing more to tell, and waits for that no longer
// than the lease can last.
func abandon(lease *berth.Lease) {
	released := make(chan struct{})
	until := time.Until(lease.ValidUntil())
	go func() {
		defer close(released)
		_ = lease.Release()
	}()
	select {
	case <-released:
	case <-time.After(until):
	}
}

// giveBack releases the lease and reports whether it had been lost before.
func giveBack(cfg Config, lease *berth.Lease) (lost bool) {
	trust := lease.ValidUntil()
	err := lease.Release()
	switch {
	case err == nil, errors.Is(err, berth.ErrReleased):
		return false
	case errors.Is(err, berth.ErrLost):
		cfg.Notices.Printf("the permit was lost before %s had ended: %s", cfg.commandName(), lostText(err, trust))
		return true
	default:
		cfg.Notices.Printf("%s", Kept(cfg.TTL, err))
		return false
	}
}

// Kept tells of a permit that could not be given back because of err.
func Kept(ttl time.Duration, err error) string {
	if errors.Is(err, berth.ErrCorrupt) { // which says for itself what becomes of the semaphore
		return "the permit could not be given back: " + trimmed(err)
	}
	return fmt.Sprintf("the permit could not be given back and is free again within %v: %s", ttl, trimmed(err))
}

// lostText tells why a lease was lost that could be trusted until trust.
func lostText(err error, trust time.Time) string {
	lost, ok := errors.AsType[*berth.LostError](err)
	if !ok {
		return trimmed(err)
	}
	text := fmt.Sprintf("its lease is lost: %v", lost.Reason)
	if lost.Reason == berth.LostVanished {
		text = fmt.Sprintf("redis no longer has its lease, which was valid for another %s: "+
			"redis has lost its data, or somebody has deleted it", screen.Age(max(0, time.Until(trust))))
	}
	if lost.By != "" {
		text += " by " + lost.By
	}
	if lost.Err != nil {
		text += ": " + trimmed(lost.Err)
	}
	return text
}

func (cfg Config) commandName() string { return filepath.Base(cfg.Command[0]) }

// The variables with the Redis URL, of which the first that is set counts: berth's own, that of a
// file which has it, and the one that many platforms set for an application.
const (
	URLVariable       = "BERTH_REDIS_URL"
	URLFileVariable   = "BERTH_REDIS_URL_FILE"
	SharedURLVariable = "REDIS_URL"
)

// NameVariable has the name of the semaphore in a command's environment.
const NameVariable = "BERTH_NAME"

// environment returns this process's environment with the variables of the lease, which
// replace those of an outer berth run. The URLs, which may have a password, are left out if the
// command is not to know them.
func (cfg Config) environment(lease *berth.Lease) []string {
	return (&exec.Cmd{Env: append(Inherited(cfg.HideURL),
		NameVariable+"="+lease.Name(),
		"BERTH_LEASE="+lease.ID(),
		"BERTH_TOKEN="+strconv.FormatInt(lease.Token(), 10),
		"BERTH_SLOT="+strconv.Itoa(lease.Slot()),
		"BERTH_WEIGHT="+strconv.Itoa(lease.Weight()),
		"BERTH_LIMIT="+limitText(lease.Limit()),
	)}).Environ()
}

// limitText is a limit as the command line has it.
func limitText(limit int) string {
	if limit == berth.NoLimit {
		return "none"
	}
	return strconv.Itoa(limit)
}

// ready makes everything ready for the start of the command. It renews a lease of which less
// than half a TTL is left: one that came by a hand-off can begin with less than its TTL. The
// error says why the command must not be started; a signal is a reason, because one that came
// until now has reached this process alone.
func ready(cfg Config, lease *berth.Lease) error {
	if time.Until(lease.ValidUntil()) < cfg.TTL/2 {
		if err := renew(cfg, lease); err != nil {
			return err
		}
	}
	cfg.Notices.Flush(flushPause) // what berth says stands before what the command says
	if !lease.Valid() {
		return notStarted(cfg, lease, context.Cause(lease.Context()))
	}
	select {
	case sig := <-cfg.Signals:
		return exit.Signal(job.Number(sig))
	default:
		return nil
	}
}

// renew renews the lease of a command that is to be started, until a signal comes.
func renew(cfg Config, lease *berth.Lease) error {
	ctx, cancel := context.WithDeadline(lease.Context(), lease.ValidUntil())
	defer cancel()
	renewed := make(chan error, 1)
	go func() { renewed <- lease.Renew(ctx) }()
	select {
	case sig := <-cfg.Signals:
		return exit.Signal(job.Number(sig))
	case err := <-renewed:
		if err != nil {
			err = notStarted(cfg, lease, err)
		}
		return err
	}
}

// late is the error of a lease that came to its end, or could not be renewed, before the
// command was started. Another one may be better.
type late struct{ error }

// Unwrap returns the error.
func (l late) Unwrap() error { return l.error }

// notStarted is the error of a start without a lease that could be trusted. The end of a lease may
// be known by its deadline alone, before the library has told why.
func notStarted(cfg Config, lease *berth.Lease, why error) error {
	switch {
	case lease.Valid():
		return late{fmt.Errorf("%s was not started: its lease could not be renewed: %w", cfg.commandName(), why)}
	case errors.Is(why, berth.ErrEvicted):
		return exit.Errorf(exit.Lost, "%s was not started: %s", cfg.commandName(), lostText(why, time.Now()))
	case errors.Is(why, berth.ErrLost):
		why = exit.Errorf(exit.Lost, "%s was not started: %s", cfg.commandName(), lostText(why, time.Now()))
	default:
		why = exit.Errorf(exit.Lost, "%s was not started: its lease has expired", cfg.commandName())
	}
	if cfg.MaxHold > 0 && cfg.MaxHold < cfg.TTL {
		return why // another one would not last longer
	}
	return late{why}
}
