package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/words"
)

func (a *app) lsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the semaphores in use",
		Long:    "List the semaphores in use: their limits, and how many hold and wait.",
		Example: "  berth ls\n  berth ls --json | jq '.[] | select(.waiting > 0).name'",
		GroupID: groupLook,
		Args:    takesNo("names"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = runs(func(*cobra.Command, []string) error {
		return a.list(func(ctx context.Context, in *berth.Inspector) error {
			list, err := listed(ctx, in)
			if err != nil && !errors.Is(err, berth.ErrCorrupt) {
				return err
			}
			if asJSON {
				return errors.Join(a.printJSON(list), err)
			}
			return errors.Join(a.print(listTable(list, reasons(ctx, in, list...)).text(a.columns())), err) // damaged ones hide no others
		})
	})
	return cmd
}

// reasons reads the audit if anything is paused or pinned.
func reasons(ctx context.Context, in *berth.Inspector, list ...berth.Summary) berthwatch.Reasons {
	for _, s := range list {
		if s.Paused || s.Pinned {
			return berthwatch.ReasonsIn(in.Audit(ctx))
		}
	}
	return nil
}

func listTable(list []berth.Summary, why berthwatch.Reasons) *table {
	t := newTable("NAME", "IN USE", "LIMIT", "HOLDERS", "WAITING", "OLDEST WAIT", "NEXT EXPIRY", "STATE")
	for _, s := range list {
		t.row(s.Name, strconv.Itoa(s.InUse), strconv.Itoa(s.Limit), strconv.Itoa(s.Holders),
			strconv.Itoa(s.Waiting), screen.AgeOrDash(s.OldestWait), screen.AgeOrDash(s.NextExpiry), stateWords(s, why))
	}
	return t
}

func (a *app) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a semaphore and who waits for it",
		Long: `Show who holds a semaphore and who waits for it, since when, and when their
leases expire unless they are renewed. It changes nothing: a lease or waiter
that has expired is shown so until the next request for a permit. Exits with 1
when NAME is not in use.`,
		Example: "  berth show github-api\n  berth show --json github-api | jq '.leases[].pid'",
		GroupID: groupLook,
		Args:    takes(1, 1, "the semaphore's name is"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = runs(func(_ *cobra.Command, args []string) error {
		return a.inspect(func(ctx context.Context, in *berth.Inspector) error {
			state, err := viewed(ctx, in, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(state)
			}
			return a.print(stateText(state, reasons(ctx, in, state.Summary), a.columns()))
		})
	})
	return cmd
}

func stateText(s *berth.State, why berthwatch.Reasons, columns int) string {
	head := fmt.Sprintf("%s: %d of %d in use by %s, %d waiting", screen.Clean(s.Name),
		s.InUse, s.Limit, words.Plural(len(s.Leases), "holder"), len(s.Queue))
	if state := stateWords(s.Summary, why); state != "" {
		head += " (" + state + ")"
	}
	var b strings.Builder
	b.WriteString(fill(head, columns) + "\n")
	if len(s.Leases) > 0 {
		b.WriteString("\n" + holdersTable(s.Leases).text(columns))
	}
	if len(s.Queue) > 0 {
		b.WriteString("\n" + waitersTable(s.Queue).text(columns))
	}
	return b.String()
}

func holdersTable(holders []berth.Holder) *table {
	t := newTable("SLOT", "HOLDER", "HOST", "PID", "WEIGHT", "HELD", "EXPIRES IN", "LEASE")
	for _, h := range holders {
		expires := screen.Expiry(h.ExpiresIn, h.Expired)
		if h.Until > 0 {
			expires += ", ends in " + screen.Age(h.Until)
		}
		if h.Evicting {
			expires += ", evicted"
		}
		t.row(strconv.Itoa(h.Slot), cmp.Or(h.Label, "-"), cmp.Or(h.Host, "-"), strconv.Itoa(h.PID),
			strconv.Itoa(h.Weight), screen.Age(h.Held), expires, h.ID)
	}
	return t
}

func waitersTable(waiters []berth.Waiter) *table {
	t := newTable("PLACE", "WAITER", "HOST", "PID", "WEIGHT", "WAITED", "EXPIRES IN", "REQUEST")
	for _, w := range waiters {
		t.row(strconv.Itoa(w.Ahead+1), cmp.Or(w.Label, "-"), cmp.Or(w.Host, "-"), strconv.Itoa(w.PID),
			strconv.Itoa(w.Weight), screen.Age(w.Waited), screen.Expiry(w.ExpiresIn, w.Expired), w.ID)
	}
	return t
}

func stateWords(s berth.Summary, why berthwatch.Reasons) string {
	var all []string
	if s.Paused {
		all = append(all, why.Pause(s.Name))
	}
	if s.Pinned {
		all = append(all, why.Pin(s.Name)+", declared "+screen.Declared(s.Declared))
	}
	if s.Expired > 0 {
		all = append(all, fmt.Sprintf("%d expired", s.Expired))
	}
	if s.LimitChanges > 0 {
		all = append(all, "limit changed "+words.Plural(s.LimitChanges, "time"))
	}
	return strings.Join(all, "; ")
}
