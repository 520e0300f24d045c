package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/berth-go/berth/cmd/berth/internal/doctor"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// widest is the longest line of prose that is pleasant to read.
const widest = 100

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check a Redis for what berth needs of it",
		Long: `Check whether a Redis has what berth needs, and explain each finding and what to
do: version, rights, scripts, messages, memory and eviction, persistence,
replication, clock, latency, Cluster, and foreign content in berth's keys. It
only reads, except that it tries a semaphore of its own, which it removes.

Exits with 1 when something failed, with 69 when Redis cannot be reached.`,
		Example: `  berth doctor
  berth doctor --json | jq '.findings[] | select(.status != "OK")'`,
		GroupID: groupLook,
		Args:    takesNo("arguments"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = runs(func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), asJSON) })
	return cmd
}

func (a *app) doctor(ctx context.Context, asJSON bool) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Close(nil)
	source, _ := a.redisSource()
	report, err := doctor.Examine(ctx, doctor.Config{Redis: s.rdb, Prefix: a.prefix, Local: source == ""})
	if err != nil {
		return exit.Errorf(exit.Unavailable, "redis cannot be examined: %w", err)
	}
	if asJSON {
		err = a.printJSON(report)
	} else {
		err = a.print(report.Text(a.page()))
	}
	if err == nil && report.Fail > 0 {
		return exit.Code(exit.Failure)
	}
	return err
}

// page returns how wide text on standard output may be, and whether it may have colours.
func (a *app) page() (width int, color bool) {
	out, isFile := a.stdout.(*os.File)
	if !isFile || !term.IsTerminal(int(out.Fd())) {
		return widest, false
	}
	return min(screen.Width(out), widest), os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
