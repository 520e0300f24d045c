package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/words"
)

func (a *app) purgeCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "purge NAME...",
		Short: "Delete semaphores with everything in them",
		Long: `Delete semaphores with everything in them: leases, queue, pin and pause. Holders
learn of their loss when they renew, at the latest; until then the limit can be
exceeded. It shows what there is, and asks; without a terminal it needs --yes.
It takes names, not patterns.`,
		Example: "  berth purge old-name\n  berth purge --yes test-1 test-2",
		GroupID: groupRule,
		Args:    takes(1, -1, "the semaphore's name is"),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	a.reasonFlag(cmd)
	cmd.RunE = runs(func(_ *cobra.Command, names []string) error { return a.purge(names, yes) })
	return cmd
}

func (a *app) purge(names []string, yes bool) error {
	if err := a.mustAsk(yes, "this deletes semaphores with their leases and queues"); err != nil {
		return err
	}
	return a.operate(func(in *berth.Inspector) (err error) {
		before, plan := make([]string, len(names)), ""
		for i, name := range names {
			if before[i], err = remains(in, name); err != nil {
				return err
			}
			plan += fill(screen.Clean(name+": "+before[i]), screen.Width(a.stderr)) + "\n"
		}
		if err := a.confirm(yes, plan, "Delete "+words.Plural(len(names), "semaphore")+", with leases and queues?"); err != nil {
			return err
		}
		var errs []error
		for i, name := range names {
			err := ask(func(ctx context.Context) error { return in.Purge(ctx, name) })
			if err == nil {
				err = a.tell(name, before[i]+" → deleted")
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// remains describes what there is to delete. A damaged semaphore is not an error here,
// because purge is the way to repair it.
func remains(in *berth.Inspector, name string) (string, error) {
	state, err := look(in, name)
	if errors.Is(err, berth.ErrCorrupt) {
		return "damaged", nil
	}
	if err == nil && state == nil {
		err = exit.Errorf(exit.Failure, "semaphore %q is not in use, nothing was changed", name)
	}
	return standing(state), err
}
