// Package run runs a command while a permit is held: it waits, starts the
// command, passes signals on to it, ends it when the lease is lost, and gives
// the permit back when it has ended.
package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
)

// Config is one run.
type Config struct {
	Name    string   // of the semaphore
	Path    string   // of the program, from job.Lookup
	Command []string // with the program's name as the user wrote it
	TTL     time.Duration
	// Acquire gets the permit. It ends when ctx does.
	Acquire func(ctx context.Context, opts ...berth.Option) (*berth.Lease, error)
	// Probe asks Redis for a sign of life.
	Probe func() error
	// NotAcquired is the exit code when there was no permit in time.
	NotAcquired int
	// WarnOnly leaves the command running when the lease is lost.
	WarnOnly bool
	// Signals are those that end a process; see job.Catch.
	Signals <-chan os.Signal
	// Notices is where the user is told things.
	Notices *Notices
}

// Run runs the command and returns the error whose code berth exits with. The
// permit has been given back by then.
//
// It must be called on a thread that lives as long as the process: the system
// ends the command with the thread that started it.
func Run(cfg Config) error {
	lease, err := Wait(cfg)
	if err != nil {
		return err
	}
	err = supervise(cfg, lease)
	if exit.Of(err) == exit.Lost {
		abandon(lease)
		return err
	}
	if lost := giveBack(cfg, lease); lost && !cfg.WarnOnly {
		return exit.Code(exit.Lost)
	}
	return err
}

// abandon gives back what may be left of a lease that is lost, or as good as,
// but waits for that no longer than the lease can last.
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

// giveBack releases the lease and tells whether it had been lost before.
func giveBack(cfg Config, lease *berth.Lease) (lost bool) {
	err := lease.Release()
	switch {
	case err == nil, errors.Is(err, berth.ErrReleased):
		return false
	case errors.Is(err, berth.ErrLost):
		cfg.Notices.Printf("the lease was lost before %s had ended: %s",
			cfg.commandName(), strings.TrimPrefix(err.Error(), "berth: "))
		return true
	default:
		cfg.Notices.Printf("the permit could not be given back and is free again within %v: %s",
			cfg.TTL, strings.TrimPrefix(err.Error(), "berth: "))
		return false
	}
}

func (cfg Config) commandName() string { return filepath.Base(cfg.Command[0]) }

// environment is this process's, with the lease's particulars added. Those of
// an outer berth run are replaced.
func environment(lease *berth.Lease) []string {
	ours := map[string]string{
		"BERTH_NAME":   lease.Name(),
		"BERTH_LEASE":  lease.ID(),
		"BERTH_TOKEN":  strconv.FormatInt(lease.Token(), 10),
		"BERTH_SLOT":   strconv.Itoa(lease.Slot()),
		"BERTH_WEIGHT": strconv.Itoa(lease.Weight()),
		"BERTH_LIMIT":  strconv.Itoa(lease.Limit()),
	}
	var env []string
	for _, kv := range os.Environ() {
		key, _, _ := strings.Cut(kv, "=")
		if _, replaced := ours[key]; !replaced {
			env = append(env, kv)
		}
	}
	for key, value := range ours {
		env = append(env, key+"="+value)
	}
	return env
}

// start starts the command. The lease is made fresh first: one that was handed
// over by another holder starts with a shorter time to live.
func start(cfg Config, lease *berth.Lease, tty *job.Terminal) (*job.Process, error) {
	if time.Until(lease.ValidUntil()) < cfg.TTL/2 {
		ctx, cancel := context.WithDeadline(lease.Context(), lease.ValidUntil())
		defer cancel()
		if err := lease.Renew(ctx); err != nil {
			return nil, fmt.Errorf("the permit was lost before %s could start: %w", cfg.commandName(), err)
		}
	}
	if !lease.Valid() {
		return nil, exit.Errorf(exit.Lost, "the permit was lost before %s could start", cfg.commandName())
	}
	spec := job.Spec{
		Path: cfg.Path, Args: cfg.Command, Env: environment(lease),
		EndWithParent: !cfg.WarnOnly,
	}
	if tty != nil && tty.Wanted() {
		spec.Terminal = tty
	}
	return job.Start(spec)
}
