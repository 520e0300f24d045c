package cli

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/run"
	"github.com/berth-go/berth/cmd/berth/internal/value"
)

// permitFlags are the flags of the commands that take a permit.
type permitFlags struct {
	limit      int
	weight     int
	wait       time.Duration
	noWait     bool
	queueLimit int
	ttl        time.Duration
	label      string
	headStart  time.Duration
	maxHold    time.Duration
	code       int
}

func (p *permitFlags) define(cmd *cobra.Command, ttl time.Duration) {
	f := cmd.Flags()
	f.VarP(value.Int(&p.limit, 0), "limit", "n", "how many permits the semaphore has (default: as many as\nit has now, 1 if it is new)")
	f.Lookup("limit").DefValue = "" // 0 means nothing to a reader
	f.VarP(value.Int(&p.weight, 1), "weight", "W", "how many of them to take")
	f.VarP(value.Duration(&p.wait, 0), "wait", "w", "give up after this `DURATION`: 90s, 10m or 2h; a plain\nnumber is seconds (default: never)")
	f.BoolVar(&p.noWait, "no-wait", false, "give up at once when there is no permit")
	f.Var(value.Int(&p.queueLimit, -1), "queue-limit", "give up at once when `N` are waiting already\n(default: no limit)")
	f.Lookup("queue-limit").DefValue = "" // -1 means nothing to a reader
	f.Var(value.Duration(&p.ttl, ttl), "ttl", "how long the permit is missing after a crash of its\nholder")
	f.StringVar(&p.label, "label", "", "what \"berth show\" shows beside the permit")
	f.Var(value.Duration(&p.headStart, 0), "head-start", "queue as if this much earlier")
	f.Var(value.Duration(&p.maxHold, 0), "max-hold", "lose the permit after this long, renewed or not\n(default: never)")
	f.VarP(value.Int(&p.code, exit.NotAcquired), "conflict-exit-code", "E", "exit `CODE` when there was no permit in time")
}

// check refuses values that the library would not refuse.
func (p *permitFlags) check(cmd *cobra.Command) error {
	switch f := cmd.Flags(); {
	case p.noWait && f.Changed("wait"):
		return exit.Usagef("--wait and --no-wait exclude each other")
	case p.code < 0 || p.code > 255:
		return exit.Usagef("-E %d: an exit code is 0 to 255", p.code)
	case p.wait < 0:
		return exit.Usagef("--wait %v: it is negative", p.wait)
	case f.Changed("wait") && p.wait == 0:
		p.noWait = true
	case p.queueLimit < 0 && f.Changed("queue-limit"):
		return exit.Usagef("--queue-limit %d: it is negative", p.queueLimit)
	case f.Changed("limit") && p.limit < 1:
		return exit.Usagef("--limit %d: it must be at least 1", p.limit)
	case f.Changed("limit") && p.weight > p.limit:
		return exit.Usagef("--weight %d is above --limit %d: no wait would be long enough", p.weight, p.limit)
	}
	return nil
}

// semaphore returns the semaphore with the options of the flags.
func (p *permitFlags) semaphore(client *berth.Client, name string, more ...berth.Option) (*berth.Semaphore, error) {
	opts := []berth.Option{
		berth.TTL(p.ttl), berth.Weight(p.weight), berth.Label(p.label), berth.MaxHold(p.maxHold),
	}
	if p.queueLimit >= 0 {
		opts = append(opts, berth.QueueLimit(p.queueLimit))
	}
	return client.Semaphore(name, p.limit, append(opts, more...)...)
}

// acquire is a function that gets a permit.
type acquire func(context.Context, ...berth.AcquireOption) (*berth.Lease, error)

// ahead returns get with the head start of the flags.
func (p *permitFlags) ahead(get acquire) acquire {
	return func(ctx context.Context, opts ...berth.AcquireOption) (*berth.Lease, error) {
		return get(ctx, append(opts, berth.HeadStart(p.headStart))...)
	}
}

// config returns the configuration for getting a permit.
func (p *permitFlags) config(a *app, s *session, sem *berth.Semaphore, signals <-chan os.Signal) run.Config {
	cfg := run.Config{
		Name: sem.Name(), TTL: p.ttl, MaxHold: p.maxHold, Weight: p.weight, Wait: p.wait, Acquire: p.ahead(sem.Acquire), Health: s.health, Ping: s.ping,
		NotAcquired: p.code, Quiet: a.quiet, Signals: signals, Notices: run.NewNotices(a.stderr, a.quiet),
	}
	if p.noWait {
		cfg.Wait, cfg.Once, cfg.Acquire = s.timeout, true, p.ahead(sem.TryAcquire)
	}
	return cfg
}
