package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// verb is an operator's command: a name, perhaps a limit, and one call.
func (a *app) verb(cmd cobra.Command, args int, do func(ctx context.Context, in *berth.Inspector, args []string) error) *cobra.Command {
	cmd.GroupID = groupRule
	cmd.Args = cobra.ExactArgs(args)
	cmd.RunE = runs(func(_ *cobra.Command, args []string) error {
		return a.inspect(func(ctx context.Context, in *berth.Inspector) error { return do(ctx, in, args) })
	})
	return &cmd
}

// nameVerb is a verb with nothing but a name.
func (a *app) nameVerb(cmd cobra.Command, do func(*berth.Inspector, context.Context, string) error) *cobra.Command {
	return a.verb(cmd, 1, func(ctx context.Context, in *berth.Inspector, args []string) error {
		return do(in, ctx, args[0])
	})
}

// limitVerb is a verb with a name and a limit.
func (a *app) limitVerb(cmd cobra.Command, do func(*berth.Inspector, context.Context, string, int) error) *cobra.Command {
	return a.verb(cmd, 2, func(ctx context.Context, in *berth.Inspector, args []string) error {
		limit, err := strconv.Atoi(args[1])
		if err != nil {
			return exit.Usagef("the limit %q is not a number", args[1])
		}
		return do(in, ctx, args[0], limit)
	})
}

func (a *app) resizeCommand() *cobra.Command {
	return a.limitVerb(cobra.Command{
		Use:   "resize NAME LIMIT",
		Short: "Declare another limit",
		Long: `Declare another limit, as a program would: it holds until the next program
declares its own. A larger limit wakes those who wait, a smaller one grants
nothing until there is room again. Use "berth pin" to overrule programs.`,
		Example: "  berth resize github-api 10",
	}, (*berth.Inspector).Resize)
}

func (a *app) pinCommand() *cobra.Command {
	return a.limitVerb(cobra.Command{
		Use:   "pin NAME LIMIT",
		Short: "Fix the limit, whatever programs declare",
		Long: `Fix the limit, whatever programs declare, until "berth unpin". A limit of 0
grants nothing any more; who holds, keeps.`,
		Example: "  berth pin github-api 2",
	}, (*berth.Inspector).Pin)
}

func (a *app) unpinCommand() *cobra.Command {
	return a.nameVerb(cobra.Command{
		Use:     "unpin NAME",
		Short:   "Let programs declare the limit again",
		Long:    "Let programs declare the limit again.",
		Example: "  berth unpin github-api",
	}, (*berth.Inspector).Unpin)
}

func (a *app) pauseCommand() *cobra.Command {
	return a.nameVerb(cobra.Command{
		Use:     "pause NAME",
		Short:   "Grant nothing until resumed",
		Long:    "Grant nothing until \"berth resume\". Who holds, keeps; the queue stays.",
		Example: "  berth pause deploy",
	}, (*berth.Inspector).Pause)
}

func (a *app) resumeCommand() *cobra.Command {
	return a.nameVerb(cobra.Command{
		Use:     "resume NAME",
		Short:   "Grant permits again after a pause",
		Long:    "Grant permits again after \"berth pause\".",
		Example: "  berth resume deploy",
	}, (*berth.Inspector).Resume)
}

func (a *app) evictCommand() *cobra.Command {
	var force bool
	cmd := a.verb(cobra.Command{
		Use:   "evict NAME LEASE",
		Short: "Take a permit, or a place in the queue, away",
		Long: `Take a permit, or a place in the queue, away. LEASE is from "berth show".

The holder is told, and its lease is renewed no more; it has until the lease's
end to stop. With --force the permit is free at once, whether or not the holder
has stopped: for a short time more than the limit may be at work.`,
		Example: "  berth evict github-api 5f3c…-12",
	}, 2, func(ctx context.Context, in *berth.Inspector, args []string) error {
		return in.Evict(ctx, args[0], args[1], force)
	})
	cmd.Flags().BoolVar(&force, "force", false, "free the permit at once")
	return cmd
}

func (a *app) purgeCommand() *cobra.Command {
	var yes bool
	cmd := a.verb(cobra.Command{
		Use:   "purge NAME",
		Short: "Delete a semaphore with all that it holds",
		Long: `Delete a semaphore with all that it holds: leases, queue, pin and pause. Holders
hear of their loss, at the latest when they renew.`,
		Example: "  berth purge --yes old-name",
	}, 1, func(ctx context.Context, in *berth.Inspector, args []string) error {
		return in.Purge(ctx, args[0])
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.PreRunE = func(_ *cobra.Command, args []string) error {
		if !yes {
			return exit.Usagef("this deletes %q with all its leases and its queue; add --yes to do it", args[0])
		}
		return nil
	}
	return cmd
}
