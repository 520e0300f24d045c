package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/cmd/berth/internal/doctor"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/cmd/berth/internal/value"
	"github.com/berth-go/berth/cmd/berth/internal/view"
	"github.com/berth-go/berth/internal/words"
)

func (a *app) lsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the semaphores in use",
		Long: `List the semaphores in use: their limits, and how many hold and wait. NEXT
EXPIRY is the soonest that an unrenewed lease can expire.`,
		Example: "  berth ls\n  berth ls --json | jq '.[] | select(.waiting > 0).name'",
		GroupID: groupLook,
		Args:    takesNo("names"),
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(*cobra.Command, []string) error {
		return a.with(func(s *session) error {
			ctx, in := context.Background(), s.in
			list, damaged, err := view.List(ctx, in)
			if err != nil {
				return err
			}
			if *asJSON {
				err = a.printJSON(list)
			} else {
				err = a.print(a.heading() + listTable(list, reasons(ctx, in, list...)).text(a.columns()))
			}
			for _, name := range slices.Sorted(maps.Keys(damaged)) { // they hide no others
				err = errors.Join(err, damaged[name])
			}
			return err
		})
	}
	return cmd
}

// reasons reads the audit if anything is paused or pinned, or has another limit than before.
func reasons(ctx context.Context, in *berthadmin.Inspector, list ...berthadmin.Summary) berthwatch.Reasons {
	for _, s := range list {
		if s.Paused || s.Pinned || s.RatesPinned || s.LimitChanges > 0 {
			return berthwatch.ReasonsIn(in.Audit(ctx))
		}
	}
	return nil
}

func listTable(list []berthadmin.Summary, why berthwatch.Reasons) *table {
	t := newTable("NAME", "IN USE", "LIMIT", "HOLDERS", "WAITING", "OLDEST WAIT", "NEXT EXPIRY", "STATE")
	for _, s := range list {
		t.row(s.Name, strconv.Itoa(s.InUse), berthwatch.Limit(&s), strconv.Itoa(s.Holders),
			strconv.Itoa(s.Waiting), screen.AgeOrDash(s.OldestWait), screen.AgeOrDash(s.NextExpiry), stateWords(s, why))
	}
	return t
}

func (a *app) showCommand() *cobra.Command {
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
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		return a.with(func(s *session) error {
			in := s.in
			state, err := view.Show(context.Background(), in, args[0]) // in many calls where many wait
			if err != nil {
				return err
			}
			if *asJSON {
				return a.printJSON(state)
			}
			return a.print(stateText(state, reasons(context.Background(), in, state.Summary), a.columns()))
		})
	}
	return cmd
}

func stateText(s *berthadmin.State, why berthwatch.Reasons, columns int) string {
	head := fmt.Sprintf("%s: %d of %s in use by %s, %d waiting", screen.Clean(s.Name),
		s.InUse, berthwatch.Limit(&s.Summary), words.Plural(len(s.Leases), "holder"), len(s.Queue))
	if state := stateWords(s.Summary, why); state != "" {
		head += " (" + state + ")"
	}
	lines := []string{fill(head, columns)}
	for _, shares := range berthwatch.SharesOf(s) {
		lines = append(lines, fill(shares.Text(), columns))
	}
	text := strings.Join(lines, "\n") + "\n"
	if len(s.Leases) > 0 {
		text += "\n" + holdersTable(s.Leases).text(columns)
	}
	if len(s.Queue) > 0 {
		text += "\n" + waitersTable(s.Queue).text(columns)
	}
	return text
}

func holdersTable(holders []berthadmin.Holder) *table {
	t := newTable("SLOT", "HOLDER", tenantColumn, "HOST", "PID", "WEIGHT", "HELD", "EXPIRES IN", "LEASE")
	for _, h := range holders {
		expires := screen.Expiry(h.ExpiresIn, h.Expired)
		if h.Until > 0 {
			expires += ", ends in " + screen.Age(h.Until)
		}
		if ago := h.Unrenewed(); ago > 0 {
			expires += ", not renewed for " + screen.Age(ago)
		}
		if h.Evicting {
			expires += ", evicted"
		}
		t.row(strconv.Itoa(h.Slot), cmp.Or(h.Label, "-"), h.Tenant, cmp.Or(h.Host, "-"), pidOrDash(h.PID),
			strconv.Itoa(h.Weight), screen.Age(h.Held), expires, h.ID)
	}
	return t.optional(tenantColumn)
}

func waitersTable(waiters []berthadmin.Waiter) *table {
	t := newTable("PLACE", "WAITER", tenantColumn, "HOST", "PID", "WEIGHT", costColumn, "WAITED", "EXPIRES IN", "REQUEST")
	for _, w := range waiters {
		t.row(strconv.Itoa(w.Ahead+1), cmp.Or(w.Label, "-"), w.Tenant, cmp.Or(w.Host, "-"), pidOrDash(w.PID),
			strconv.Itoa(w.Weight), berthwatch.Costs(&w), screen.Age(w.Waited), screen.Expiry(w.ExpiresIn, w.Expired), w.ID)
	}
	return t.optional(tenantColumn, costColumn)
}

// pidOrDash is a process; a program behind an agent may not have said which one it is.
func pidOrDash(pid int) string {
	if pid == 0 {
		return "-"
	}
	return strconv.Itoa(pid)
}

func stateWords(s berthadmin.Summary, why berthwatch.Reasons) string {
	var all []string
	if s.Paused {
		all = append(all, why.Paused(&s))
	}
	if s.Pinned {
		all = append(all, why.Pin(s.Name)+", declared "+screen.Declared(s.Declared))
	}
	if rates := berthwatch.Rates(&s); rates != "" {
		all = append(all, rates)
	}
	if s.RatesPinned {
		all = append(all, why.RatesPin(s.Name))
	}
	if s.Expired > 0 {
		all = append(all, fmt.Sprintf("%d expired", s.Expired))
	}
	if s.LimitChanges > 0 {
		all = append(all, "limit changed "+words.Plural(s.LimitChanges, "time"))
		all = append(all, why.Resized(s.Name)...)
	}
	return strings.Join(all, "; ")
}

func (a *app) auditCommand() *cobra.Command {
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "audit [NAME]",
		Short: "Show who has changed what, when and why",
		Long: `Show who has changed what, when and why, with "berth pin" and the other verbs:
for all semaphores or for one, the latest first. Redis keeps about the last
1,000 records. This needs the right to XREVRANGE. The verbs need that to XADD;
without it they work, and say that they were not recorded.`,
		Example: "  berth audit github-api\n  berth audit --since 24h --json | jq '.[].who'",
		GroupID: groupLook,
		Args:    takes(0, 1, ""),
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.Flags().Var(value.Duration(&since, 0), "since", "no older than this `DURATION` (default: all)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if since < 0 {
			return exit.Usagef("--since %v: it is negative", since)
		}
		name := strings.Join(args, "")
		if name == "" && len(args) > 0 {
			return exit.Usagef("the semaphore's name is empty: leave it out for all")
		}
		return a.inspect(func(ctx context.Context, in *berthadmin.Inspector) error {
			list := []berthadmin.Audited{}
			for e, err := range in.Audit(ctx) {
				if err != nil {
					return err
				}
				if since > 0 && time.Since(e.At) > since {
					break
				}
				if name == "" || e.Name == name {
					list = append(list, e)
				}
			}
			if *asJSON {
				return a.printJSON(list)
			}
			return a.print(auditTable(list).text(a.columns()))
		})
	}
	return cmd
}

func auditTable(list []berthadmin.Audited) *table {
	t := newTable("TIME", "VERB", "NAME", "WHAT", "WHO", "REASON")
	for _, e := range list {
		why := e.Why
		if e.Error != "" {
			why = strings.TrimPrefix(why+"; ", "; ") + "outcome unknown: " + e.Error
		}
		t.row(e.At.Local().Format("2006-01-02 15:04:05"), e.Verb, e.Name, cmp.Or(subject(e), "-"), e.Who, why)
	}
	return t
}

// subject is what a verb changed, and from what.
func subject(e berthadmin.Audited) string {
	switch {
	case e.From == "" || e.From == e.What:
		return e.What
	case e.What == "":
		return "was " + e.From
	}
	return e.From + " → " + e.What
}

const doctorLong = `Check whether a Redis has what berth needs, and explain each finding and what to
do. It only reads, except that it publishes to its own channel and writes to a
test semaphore, which it removes; if it may not remove it, it writes nothing.

What fails:
  version      before 6.2, in a Cluster before 7.0; 32-bit
  cluster      unserved slots; a Cluster's server used as if it were alone
  rights       a right is missing
  semaphore    acquire, renew, hand over or release
  scripts      EVAL or EVALSHA
  messages     none comes from itself: hand-offs take seconds
  memory       it is full; allkeys-* with maxmemory
  persistence  the disk cannot be written; data are being loaded
  replication  it is a replica; too few for min-replicas-to-write
  clock        it drifts by more than 1 % plus the round trip
  latency      p99 over 2 s
  keyspace     content that is foreign or of a newer berth; under volatile-*
               keys in use that have a TTL

What warns:
  rights       one that only a feature needs; too slow to try them all
  scripts      a proxy forgets them; busy-reply-threshold below 100 ms
  memory       it is nearly full; allkeys-* without maxmemory
  persistence  no append-only file; appendfsync no
  replication  there are replicas: a failover can lose grants
  latency      p99 over 250 ms; a median over 25 ms and ten times the fastest
  keyspace     it takes over 6 s to search; a semaphore that lost one of its
               keys and heals; TTLs as above without maxmemory
and each check that needs a missing right.

The clock is compared by twelve TIMEs in half a second, the latency is that of
fifty PINGs in three, and the keyspace is that of the first 2,000 semaphores
under the prefix. This machine's own store has fewer checks.

Exits with 1 when something failed, with 69 when Redis cannot be examined: it
does not answer, is not Redis, or refuses the login.`

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check a Redis for what berth needs of it",
		Long:  doctorLong,
		Example: `  berth doctor
  berth doctor --json | jq '.findings[] | select(.status != "OK")'`,
		GroupID: groupLook,
		Args:    takesNo("arguments"),
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.with(func(s *session) error { return a.doctor(cmd.Context(), s, *asJSON) })
	}
	return cmd
}

func (a *app) doctor(ctx context.Context, s *session, asJSON bool) error {
	report, err := doctor.Examine(ctx, doctor.Config{Redis: s.rdb, Prefix: a.prefix, Local: s.local != nil})
	if err != nil {
		return exit.Errorf(exit.Unavailable, "redis cannot be examined: %w", err)
	}
	if asJSON {
		err = a.printJSON(report)
	} else {
		err = a.print("Server: " + a.where + "\n\n" + report.Text(a.page()))
	}
	if err == nil && report.Fail > 0 {
		return exit.Code(exit.Failure)
	}
	return err
}
