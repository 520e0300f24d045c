package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
	"github.com/berth-go/berth/cmd/berth/internal/run"
	"github.com/berth-go/berth/cmd/berth/internal/value"
)

// handle is what "acquire --json" prints.
type handle struct {
	Handle  string `json:"handle"`
	Name    string `json:"name"`
	Lease   string `json:"lease"`
	Token   int64  `json:"token"`
	Slot    int    `json:"slot"`
	Weight  int    `json:"weight"`
	Limit   int    `json:"limit"`
	ValidMS int64  `json:"valid_ms"`
}

// handOut prints the handle. If that fails, or a signal has come meanwhile, it gives the permit
// back: the caller would go on, or never learn of it.
func (a *app) handOut(client *berth.Client, lease *berth.Lease, asJSON bool, signals <-chan os.Signal) error {
	out := handle{
		Name: lease.Name(), Token: lease.Token(), Slot: lease.Slot(),
		Weight: lease.Weight(), Limit: lease.Limit(), ValidMS: time.Until(lease.ValidUntil()).Milliseconds(),
	}
	var detached berth.Handle
	err := a.ask(func(ctx context.Context) (err error) {
		detached, err = lease.Detach(ctx)
		return err
	})
	if err != nil {
		return err
	}
	text := string(detached)
	out.Handle, out.Lease = text, leaseOf(text)
	select {
	case sig := <-signals:
		err = exit.Signal(job.Number(sig))
	default:
		if asJSON {
			err = a.printJSON(out)
		} else {
			err = a.print(text + "\n")
		}
	}
	if err == nil {
		return nil
	}
	if kept := a.ask(func(ctx context.Context) error { return client.ReleaseHandle(ctx, detached) }); kept != nil {
		a.notices.Printf("%s", run.Kept(lease.TTL(), kept))
	}
	return err
}

// leaseOf is the id of a detached lease, as "berth show" has it.
func leaseOf(handle string) string { return handle[strings.LastIndex(handle, "/")+1:] }

func (a *app) renewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "renew HANDLE",
		Short: "Keep a permit from \"berth acquire\" for another TTL",
		Long: `Keep a permit from "berth acquire" for another TTL. A lease that has expired
cannot be renewed: another process may have the permit. HANDLE can be - to read
it from standard input. Exits with 76 when the lease is lost.`,
		Example: `  berth renew "$handle" || exit`,
		GroupID: groupUse,
		Args:    takes(1, 1, "the handle is"),
	}
	asJSON := cmd.Flags().Bool("json", false, "print how long it lasts now")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		return a.withHandle(args[0], func(ctx context.Context, client *berth.Client, text string) error {
			left, err := client.RenewHandle(ctx, berth.Handle(text))
			if err != nil || !*asJSON {
				return err
			}
			return a.printJSON(map[string]any{"handle": text, "lease": leaseOf(text), "valid_ms": left.Milliseconds()})
		})
	}
	return cmd
}

func (a *app) releaseCommand() *cobra.Command {
	var settled value.Costs
	cmd := &cobra.Command{
		Use:   "release HANDLE",
		Short: "Release a permit from \"berth acquire\"",
		Long: `Release a permit from "berth acquire". HANDLE can be - to read it from standard
input. --settle reports what the permit has really cost of the semaphore's
rates: less than "acquire" has asked for is free at once. Exits with 76 when the
lease was lost before; then nothing is settled.`,
		Example: `  berth release "$handle"
  berth release --settle tokens=917 "$handle"`,
		GroupID: groupUse,
		Args:    takes(1, 1, "the handle is"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.withHandle(args[0], func(ctx context.Context, client *berth.Client, text string) error {
				return client.ReleaseHandle(ctx, berth.Handle(text), settled.Options()...)
			})
		},
	}
	cmd.Flags().Var(&settled, "settle", "what the permit has cost, `[UNIT=]N`; can be repeated")
	return cmd
}

// withHandle calls f with a handle: the argument, or what is on standard input if that is "-".
func (a *app) withHandle(text string, f func(ctx context.Context, client *berth.Client, text string) error) error {
	switch text {
	case "":
		return exit.Usagef("the handle is empty: is it in another variable?")
	case "-":
		b, err := io.ReadAll(io.LimitReader(a.stdin, maxHandle))
		if err != nil {
			return fmt.Errorf("read the handle: %w", err)
		}
		if text = strings.TrimSpace(string(b)); text == "" {
			return exit.Usagef("no handle on standard input")
		}
	}
	return a.call(func(ctx context.Context, s *session) error {
		return s.health.UnlessRefused(ctx, func(ctx context.Context, _ func()) error { return f(ctx, s.client, text) })
	})
}
