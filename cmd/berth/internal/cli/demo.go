package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth/cmd/berth/internal/demo"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
	"github.com/berth-go/berth/cmd/berth/internal/value"
)

const (
	workerName = "demo-worker" // the hidden command that is a worker
	// The demo is short whatever is asked for, and long enough for a crashed
	// worker's permit to come back, unless the machine is very busy.
	minDemo, maxDemo = 4 * time.Second, 12 * time.Second
	maxWorkers       = 64
)

func (a *app) demoCommand() *cobra.Command {
	var cfg demo.Config
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work, no Redis needed",
		Long: `See berth work, no Redis needed: worker processes contend for a few permits of
an embedded store. One of them is killed while it holds a permit, and the permit
comes back. It ends by itself with a summary of what the workers have reported.
Exits with 1 if a promise was broken.`,
		Example: `  berth demo
  berth demo --workers 20 --limit 5 --json`,
		GroupID: groupOther,
		Args:    takesNo("arguments"),
	}
	f := cmd.Flags()
	f.Var(value.Int(&cfg.Workers, 8), "workers", "how many worker processes")
	f.VarP(value.Int(&cfg.Limit, 3), "limit", "n", "workers at once")
	f.Var(value.Duration(&cfg.For, 8*time.Second), "for", "how long, 4s to 12s")
	plain := f.Bool("plain", false, "lines instead of a live picture")
	asJSON := f.Bool("json", false, "print only the summary, as JSON")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := checkDemo(cfg); err != nil {
			return err
		}
		cfg.Worker = func(args ...string) *exec.Cmd { return self(append([]string{workerName}, args...)...) }
		switch {
		case *asJSON:
		case *plain || !isTerminal(a.stdout) || os.Getenv("TERM") == "dumb":
			cfg.Told = func(e demo.Event) { fmt.Fprintln(a.stdout, e) }
		default:
			cfg.Frame = (&demo.Live{File: a.stdout, Color: os.Getenv("NO_COLOR") == ""}).Frame
		}
		return a.demo(cfg, *asJSON)
	}
	return cmd
}

func checkDemo(cfg demo.Config) error {
	switch {
	case cfg.Limit < 1 || cfg.Limit >= cfg.Workers:
		return exit.Usagef("--limit %d: it must be from 1 to one less than --workers, so that somebody waits", cfg.Limit)
	case cfg.Workers > maxWorkers:
		return exit.Usagef("--workers %d: at most %d", cfg.Workers, maxWorkers)
	case cfg.For < minDemo || cfg.For > maxDemo:
		return exit.Usagef("--for %v: it must be from %v to %v", cfg.For, minDemo, maxDemo)
	}
	return nil
}

// demo runs the demo until it ends or a signal comes. Either way its processes
// and files are gone when it returns.
func (a *app) demo(cfg demo.Config, asJSON bool) error {
	signals, stop := job.Catch()
	defer stop()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case sig := <-signals:
			cancel(exit.Signal(job.Number(sig)))
		case <-ctx.Done():
		}
	}()
	summary, err := demo.Run(ctx, cfg)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	if asJSON {
		err = a.printJSON(summary)
	} else {
		err = a.print(summary.Text())
	}
	if err == nil && !summary.OK() {
		return exit.Code(exit.Failure)
	}
	return err
}

func (a *app) demoWorkerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    workerName,
		Short:  "A worker of the demo (started by berth itself)",
		Hidden: true,
		Args:   takesNo("arguments"),
	}
	limit := cmd.Flags().Int("limit", 1, "the semaphore's limit")
	number := cmd.Flags().Int("number", 0, "this worker's number")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.with(func(s *session) error {
			return demo.Work(cmd.Context(), s.client, *limit, *number, a.stdin, a.stdout)
		})
	}
	return cmd
}
