package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
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
	f.IntVarP(&p.limit, "limit", "n", 1, "how many permits the semaphore has")
	f.IntVarP(&p.weight, "weight", "W", 1, "how many of them to take")
	f.DurationVarP(&p.wait, "wait", "w", 0, "give up after this `DURATION`, for example 90s or 2h (default: never)")
	f.BoolVar(&p.noWait, "no-wait", false, "give up at once when there is no permit")
	f.IntVar(&p.queueLimit, "queue-limit", -1, "give up at once when `N` are waiting already (default: no limit)")
	f.DurationVar(&p.ttl, "ttl", ttl, "how long the permit is missing after a crash of its holder")
	f.StringVar(&p.label, "label", "", "what \"berth show\" shows beside the permit")
	f.DurationVar(&p.headStart, "head-start", 0, "queue as if this much earlier")
	f.DurationVar(&p.maxHold, "max-hold", 0, "lose the permit after this long, renewed or not (default: never)")
	f.IntVarP(&p.code, "conflict-exit-code", "E", exit.NotAcquired, "exit `CODE` when there was no permit in time")
	cmd.MarkFlagsMutuallyExclusive("wait", "no-wait")
}

// check refuses what the library would not see as wrong.
func (p *permitFlags) check(cmd *cobra.Command) error {
	switch f := cmd.Flags(); {
	case p.code < 0 || p.code > 255:
		return exit.Usagef("-E %d: an exit code is 0 to 255", p.code)
	case p.wait < 0:
		return exit.Usagef("--wait %v: it is negative", p.wait)
	case f.Changed("wait") && p.wait == 0:
		p.noWait = true
	case p.queueLimit < 0 && f.Changed("queue-limit"):
		return exit.Usagef("--queue-limit %d: it is negative", p.queueLimit)
	case p.limit < 1:
		return exit.Usagef("--limit %d: it must be at least 1", p.limit)
	case p.weight > p.limit:
		return exit.Usagef("--weight %d is above --limit %d: no wait would be long enough", p.weight, p.limit)
	}
	return nil
}

// semaphore declares the semaphore with what the flags say.
func (p *permitFlags) semaphore(client *berth.Client, name string, more ...berth.Option) (*berth.Semaphore, error) {
	opts := []berth.Option{
		berth.TTL(p.ttl), berth.Weight(p.weight), berth.Label(p.label),
		berth.HeadStart(p.headStart), berth.MaxHold(p.maxHold),
	}
	if p.queueLimit >= 0 {
		opts = append(opts, berth.QueueLimit(p.queueLimit))
	}
	return client.Semaphore(name, p.limit, append(opts, more...)...)
}

// acquire gets the permit, or not, as the flags say.
func (p *permitFlags) acquire(ctx context.Context, sem *berth.Semaphore, opts ...berth.Option) (*berth.Lease, error) {
	if p.noWait {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		lease, err := sem.TryAcquire(ctx, opts...)
		return lease, timeoutIsUnavailable(err)
	}
	if p.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.wait)
		defer cancel()
	}
	return sem.Acquire(ctx, opts...)
}
