package cli

import (
	"cmp"
	"context"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/value"
)

func (a *app) auditCommand() *cobra.Command {
	var asJSON bool
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
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().Var(value.Duration(&since, 0), "since", "no older than this `DURATION` (default: all)")
	cmd.RunE = runs(func(_ *cobra.Command, args []string) error {
		if since < 0 {
			return exit.Usagef("--since %v: it is negative", since)
		}
		name := strings.Join(args, "")
		return a.inspect(func(ctx context.Context, in *berth.Inspector) error {
			list := []berth.Audited{}
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
			if asJSON {
				return a.printJSON(list)
			}
			return a.print(auditTable(list).text(a.columns()))
		})
	})
	return cmd
}

func auditTable(list []berth.Audited) *table {
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
func subject(e berth.Audited) string {
	switch {
	case e.From == "" || e.From == e.What:
		return e.What
	case e.What == "":
		return "was " + e.From
	}
	return e.From + " → " + e.What
}

// reasonFlag gives a verb --reason.
func (a *app) reasonFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.reason, "reason", "", "why, for \"berth audit\" and whoever sees a pause or a pin")
}

// operate runs an operator's verb, which may ask a person in between.
func (a *app) operate(f func(in *berth.Inspector) error) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Close(nil)
	return f(a.operator(s, a.reason))
}

// operator returns an Inspector that records changes as this user's.
func (a *app) operator(s *session, why string) *berth.Inspector {
	return s.client.Inspector().Because(whoami(), why)
}

// whoami is this user at this machine.
func whoami() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	who := strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) && r != unicode.ReplacementChar {
			return r
		}
		return -1
	}, cmp.Or(name, "somebody")+"@"+cmp.Or(host, "unknown"))
	return strings.ToValidUTF8(who[:min(len(who), 100)], "")
}
