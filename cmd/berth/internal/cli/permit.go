package cli

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
	"github.com/berth-go/berth/cmd/berth/internal/run"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/cmd/berth/internal/value"
	"github.com/berth-go/berth/internal/bridge"
	"github.com/berth-go/berth/internal/protocol"
)

var internals = berth.Internal(bridge.NewKey())

const (
	// handleTTL is the default for permits that no process renews: long enough
	// for a script to get from one line to the next.
	handleTTL = 10 * time.Minute
	// maxHandle bounds what is read as a handle.
	maxHandle = 4096
)

const runLong = `Run a command while holding a permit of the semaphore NAME.

berth waits in the queue for the permit, keeps it while the command runs, and
gives it back when the command has ended, however it ended. The command is run
as it is, without a shell, with berth's standard streams. Signals work as with
env and flock; "berth help signals" has the details.

--wait bounds the whole wait, also for an outage of Redis to end. Without --wait
berth waits forever, but fails if Redis cannot be reached at the beginning. This
machine's own store is always waited for while its process lives; --no-wait
gives it a minute. If the lease is lost before the command starts, berth asks
for another one.

If the lease is lost (Redis was unreachable for too long, or an operator evicted
it) the command and the processes that it has started get TERM before the lease
can no longer be trusted, and KILL at that moment.

If berth itself is killed (KILL, out of memory), its permit is free again after
the TTL. On Linux the command gets TERM then, but the processes that it has
started do not: they may continue beside the next holder. Let the command end
them when it gets TERM, or let a service manager end the whole group. With
--on-lost=warn the command continues in both cases.

--observe tries a limit before it is enforced: the command runs at once, or
after two seconds if Redis is silent, and berth says on standard error what
would have become of it: it has a permit; it would have waited, or been refused;
or Redis gave no answer. With a permit it runs as usual, but its loss does not
end it. Without one, the command replaces berth, and BERTH_SLOT and the like are
not set. No queue forms, so how long it would have waited is not known.

The permit is released when the command itself has ended: processes that it
leaves behind in the background are not waited for and not killed.

The command's environment has BERTH_NAME, BERTH_LEASE, BERTH_TOKEN, BERTH_SLOT,
BERTH_WEIGHT and BERTH_LIMIT. Slots are numbered from 0; no two holders have
the same one.

Exits as the command does. If there was no permit in time, it exits with 75
(-E changes that); if the lease was lost, with 76. "berth help exit" has all
exit codes.`

const runExample = `  berth run backup -- rsync -a src/ host:dst/
  berth run -n 5 -w 10m github-api -- ./sync.sh
  berth run -n 20 --rate 60/1m --cost 2 mail -- ./send
  berth run --rate 60/1m --rate tokens=90000/1m --cost tokens=1200 llm -- ./call
  berth run --no-wait -q report -- ./report
  berth run -n 4 gpu -- sh -c 'CUDA_VISIBLE_DEVICES=$BERTH_SLOT ./train'`

func (a *app) runCommand() *cobra.Command {
	var p permitFlags
	var onLost string
	var hide bool
	cmd := &cobra.Command{
		Use:     "run [flags] NAME -- COMMAND [ARGUMENT...]",
		Short:   "Run a command while holding a permit",
		Long:    runLong,
		Example: runExample,
		GroupID: groupUse,
		Args:    checkRunArgs,
	}
	p.define(cmd, berth.DefaultTTL)
	cmd.Flags().Lookup("label").Usage += "\n(default: the command's name)"
	cmd.Flags().StringVar(&onLost, "on-lost", "kill", "`WHAT` to do on a loss: kill or warn")
	cmd.Flags().BoolVar(&p.observe, "observe", false, "run the command at once, with a permit or without, and\nsay what would have become of it")
	cmd.Flags().BoolVar(&hide, "no-inherit-url", false, "keep the variables with the Redis URL from the command")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, command := args[0], args[1:]
		if err := p.check(cmd); err != nil {
			return err
		}
		if onLost != "kill" && onLost != "warn" {
			return exit.Usagef("--on-lost %q: it is kill or warn", onLost)
		}
		path, err := job.Lookup(command[0]) // first of all: a command that does not exist must never take a permit
		if err != nil {
			return err
		}
		if p.label == "" {
			p.label = defaultLabel(command[0])
		}
		warnOnly, maxHold := onLost == "warn" || p.observe, p.maxHold
		if !warnOnly {
			p.maxHold = run.LeaseMaxHold(p.ttl, maxHold)
		}
		alone := false
		err = a.take(&p, name, func(_ *session, cfg run.Config) (err error) {
			cfg.MaxHold = maxHold
			cfg.Path, cfg.Command, cfg.WarnOnly, cfg.HideURL = path, command, warnOnly, hide
			if p.observe {
				alone, err = run.Observe(cfg)
				return err
			}
			return run.Run(cfg)
		})
		if !alone {
			return err
		}
		a.notices.Flush(lastWords)
		return job.Replace(path, command, run.Inherited(hide))
	}
	return cmd
}

// checkRunArgs insists on the separator: without it, a flag of the command's
// would be taken for one of berth's.
func checkRunArgs(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case len(args) == 0:
		return exit.Usagef("a semaphore's name and a command are missing: berth run NAME -- COMMAND")
	case dash < 0:
		return exit.Usagef("the -- before the command is missing: berth run %s -- COMMAND", args[0])
	case dash == 0:
		return exit.Usagef("the semaphore's name is missing before the --")
	case dash > 1:
		return exit.Usagef("one name is expected before the --, but there are %d: %s", dash, strings.Join(args[:dash], " "))
	case len(args) == dash || args[dash] == "":
		return exit.Usagef("the command after the -- is missing")
	}
	return nil
}

// defaultLabel is the command's base name, if that can be a label.
func defaultLabel(command string) string {
	label := screen.Clean(filepath.Base(command))
	return strings.ToValidUTF8(label[:min(len(label), berth.MaxLabel)], "")
}

// permitFlags are the flags of the commands that take a permit.
type permitFlags struct {
	limit, weight, queueLimit     int
	rates                         value.Rates
	costs                         value.Costs
	tenant                        value.Tenant
	share                         int
	wait, ttl, headStart, maxHold time.Duration
	noWait, observe, failEarly    bool
	label                         string
	code                          int
}

func (p *permitFlags) define(cmd *cobra.Command, ttl time.Duration) {
	f := cmd.Flags()
	f.VarP(value.Limit(&p.limit), "limit", "n", "how many permits the semaphore has, or none: only its\nrates limit (default: as many as it has now; if it is\nnew 1, and none with --rate)")
	f.Lookup("limit").DefValue = "" // 0 means nothing to a reader
	f.VarP(value.Int(&p.weight, 1), "weight", "W", "permits to take")
	f.Var(&p.rates, "rate", "grant at most `[UNIT=]N/DURATION[+BURST]`, whatever is\ngiven back meanwhile: 60/1m, tokens=90000/min, api=2/s+40;\ncan be repeated (default: those that it has)")
	f.Var(&p.costs, "cost", "what the permit costs of the rates of a unit, `[UNIT=]N`;\ncan be repeated (default: its weight)")
	f.Var(&p.tenant, "tenant", "whose request it is: the lines of tenants that wait\ntake turns")
	f.IntVar(&p.share, "share", 1, "`N` turns for each turn of other tenants, up to 100")
	f.VarP(value.Duration(&p.wait, 0), "wait", "w", "give up after this `DURATION`: 90s, 10m or 2h; a plain\nnumber is seconds (default: never)")
	f.BoolVar(&p.noWait, "no-wait", false, "give up at once when there is no permit")
	f.BoolVar(&p.failEarly, "fail-early", false, "give up at once when the rates, or a pause, leave no\nroom within --wait")
	f.Var(value.Int(&p.queueLimit, -1), "queue-limit", "give up at once when `N` are waiting already\n(default: no limit)")
	f.Lookup("queue-limit").DefValue = "" // -1 means nothing to a reader
	f.Var(value.Duration(&p.ttl, ttl), "ttl", "how long the permit stays taken after its holder\ncrashes")
	f.StringVar(&p.label, "label", "", "what \"berth show\" shows beside the permit")
	mayBeEmpty(f, "label")
	f.Var(value.Duration(&p.headStart, 0), "head-start", "queue ahead of requests that came up to this much\nearlier")
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
	case p.failEarly && !f.Changed("wait"):
		return exit.Usagef("--fail-early: say by --wait how long the command can wait")
	case p.failEarly && p.observe:
		return exit.Usagef("--fail-early and --observe exclude each other: what is observed never waits")
	case f.Changed("wait") && p.wait == 0:
		p.noWait = true
	case p.queueLimit < 0 && f.Changed("queue-limit"):
		return exit.Usagef("--queue-limit %d: it is negative", p.queueLimit)
	case f.Changed("share") && p.tenant == "":
		return exit.Usagef("--share %d: it is that of a tenant: add --tenant", p.share)
	case f.Changed("limit") && p.limit < 1:
		return exit.Usagef("--limit %d: it must be at least 1", p.limit)
	case f.Changed("limit") && p.weight > p.limit:
		return exit.Usagef("--weight %d is above --limit %d: no wait would be long enough", p.weight, p.limit)
	}
	return p.checkRates()
}

func (p *permitFlags) checkRates() error {
	costs, err := protocol.JoinCosts(p.costs...)
	if err != nil {
		return exit.Usagef("--cost: %w", err)
	}
	for _, c := range p.costs {
		if c.N == 0 && c.Unit == "" {
			return exit.Usagef("--cost 0: it must be at least 1; only in a unit with a name it can be 0")
		}
	}
	for _, r := range p.rates {
		flag, cost := berthwatch.RateFlag(r), costs.Of(r.Unit, p.weight)
		switch {
		case r.N == 0:
			return exit.Usagef("--rate %s: \"berth resize --rate\" takes a rate away", flag)
		case cost > cmp.Or(r.Burst, r.N):
			return exit.Usagef("a cost of %d is above --rate %s: no wait would be long enough", cost, flag)
		}
	}
	return nil
}

// semaphore returns the semaphore with the options of the flags.
func (p *permitFlags) semaphore(client *berth.Client, name string, opts ...berth.Option) (*berth.Semaphore, error) {
	opts = append(opts, berth.TTL(p.ttl), berth.Weight(p.weight), berth.Label(p.label), berth.MaxHold(p.maxHold))
	for _, r := range p.rates {
		rate := berth.Rate(r.N, r.Per).Of(r.Unit)
		if r.Burst > 0 {
			rate = rate.Burst(r.Burst)
		}
		opts = append(opts, rate)
	}
	for _, c := range p.costs.Options() {
		opts = append(opts, c)
	}
	if p.tenant != "" {
		opts = append(opts, berth.Tenant(string(p.tenant)), berth.Share(p.share))
	}
	if p.failEarly {
		opts = append(opts, berth.FailEarly())
	}
	if p.queueLimit >= 0 {
		opts = append(opts, berth.QueueLimit(p.queueLimit))
	}
	return client.Semaphore(name, p.limit, opts...)
}

// take opens a session, and calls f with what waits for a permit.
func (a *app) take(p *permitFlags, name string, f func(*session, run.Config) error, opts ...berth.Option) error {
	// From here on a signal leaves the queue instead of leaving a ghost in it.
	signals, stop := job.Catch()
	defer stop()
	began := time.Now()
	s, err := a.open()
	if err != nil {
		return err
	}
	most := closeTimeout
	defer func() { s.Close(signals, most) }()
	sem, err := p.semaphore(s.client, name, opts...)
	if err != nil {
		return err
	}
	if !a.quiet && os.Getenv(run.NameVariable) == name {
		a.notices.Printf("this runs inside \"berth run %s\", which has a permit of it: if there is no other, this waits for itself", name)
	}
	cfg := run.Config{
		Name: name, TTL: p.ttl, MaxHold: p.maxHold, Weight: p.weight, Wait: p.wait, Once: p.noWait, Patient: s.local != nil,
		Health: s.health, Ping: func(ctx context.Context) error { return s.rdb.Ping(ctx).Err() },
		Why: s.setter(name), NotAcquired: p.code, Quiet: a.quiet, Signals: signals, Notices: a.notices,
	}
	get := acquire(sem.Acquire)
	switch {
	case p.observe:
		get, cfg.Saw = observed(sem, !p.noWait)
		cfg.Wait, cfg.Patient = answerTimeout, false
	case p.noWait && cfg.Patient:
		get, cfg.Wait = sem.TryAcquire, localTimeout
	case p.noWait:
		get, cfg.Wait = sem.TryAcquire, answerTimeout
	}
	cfg.Acquire = func(ctx context.Context, queued func(berth.Place)) (*berth.Lease, error) {
		leave, err := s.enter(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
		return get(ctx, berth.HeadStart(p.headStart), berth.OnQueued(func(place berth.Place) {
			leave()
			queued(place)
		}))
	}
	var end time.Time
	if cfg.Wait > 0 {
		end = began.Add(cfg.Wait)
	}
	err = f(s, cfg)
	most = closing(err, end)
	return err
}

// acquire gets a permit, as Semaphore.Acquire does.
type acquire func(ctx context.Context, opts ...berth.AcquireOption) (*berth.Lease, error)

// observed returns what asks for a permit that is free, of a request that would wait or not, and what
// tells what was observed of it.
func observed(sem *berth.Semaphore, waits bool) (acquire, func() berth.Observation) {
	var saw atomic.Int64
	get := func(ctx context.Context, opts ...berth.AcquireOption) (*berth.Lease, error) {
		lease, o, err := internals.Observe(ctx, sem, waits, opts)
		saw.Store(int64(o))
		return lease, err
	}
	return get, func() berth.Observation { return berth.Observation(saw.Load()) }
}

// closing returns how long the clean-up may take. A user who has bounded the wait by end has
// bounded all of it; what is not given back by then expires soon.
func closing(err error, end time.Time) time.Duration {
	if kind := exit.Kind(err); end.IsZero() || kind != exit.NotAcquired && kind != exit.Unavailable {
		return closeTimeout
	}
	return min(closeTimeout, max(time.Until(end), 0)+awayTimeout)
}

func (a *app) acquireCommand() *cobra.Command {
	var p permitFlags
	cmd := &cobra.Command{
		Use:   "acquire [flags] NAME",
		Short: "Take a permit and print its handle",
		Long: `Take a permit of the semaphore NAME and print a handle for it.

For scripts that cannot use "berth run". No process renews the permit: it is
lost after --ttl unless "berth renew" is called with the handle in time.

Exit codes are those of "berth run".`,
		Example: `  handle=$(berth acquire -n 2 -w 1m --ttl 5m deploy) || exit
  ./deploy
  berth release "$handle"`,
		GroupID: groupUse,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() == 1 && len(args) > 1 {
				return exit.Usagef("berth acquire runs no command: berth run %s -- COMMAND", args[0])
			}
			return takes(1, 1, "the semaphore's name is")(cmd, args)
		},
	}
	p.define(cmd, handleTTL)
	cmd.Flags().Lookup("ttl").Usage = "how long the permit lasts without renewal"
	asJSON := cmd.Flags().Bool("json", false, "print the handle with the permit's particulars")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := p.check(cmd); err != nil {
			return err
		}
		return a.take(&p, args[0], func(s *session, cfg run.Config) error {
			cfg.Signals = a.untilUnread(cfg.Signals)
			lease, err := run.Wait(cfg)
			if err != nil {
				return err
			}
			return a.handOut(s.client, lease, *asJSON, cfg.Signals)
		}, berth.WithoutRenewal())
	}
	return cmd
}

// untilUnread adds to the signals a SIGPIPE for when nobody can read the handle any more: the
// script that wanted it was killed, and a permit would be missing until the handle expires.
func (a *app) untilUnread(signals <-chan os.Signal) <-chan os.Signal {
	all := make(chan os.Signal)
	go func() {
		for tick := time.Tick(time.Second); ; {
			select {
			case sig := <-signals:
				all <- sig
			case <-tick:
				out := []unix.PollFd{{Fd: int32(a.stdout.Fd())}}
				if n, err := unix.Poll(out, 0); err == nil && n > 0 && out[0].Revents&unix.POLLERR != 0 {
					all <- unix.SIGPIPE
					return
				}
			}
		}
	}()
	return all
}
