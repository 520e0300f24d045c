package cli

import (
	"context"
	"errors"
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
)

const (
	// handleTTL is the default for permits that no process renews: long enough
	// for a script to get from one line to the next.
	handleTTL = 10 * time.Minute
	// maxHandle bounds what is read as a handle.
	maxHandle = 4096
)

func (a *app) acquireCommand() *cobra.Command {
	var p permitFlags
	var asJSON bool
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
		Args:    takes(1, 1, "the semaphore's name is"),
	}
	p.define(cmd, handleTTL)
	cmd.Flags().Lookup("ttl").Usage = "how long the permit lasts unless it is renewed"
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the handle with the permit's particulars")
	cmd.RunE = runs(func(cmd *cobra.Command, args []string) error {
		signals, stop := job.Catch()
		defer stop()
		if err := p.check(cmd); err != nil {
			return err
		}
		return a.acquire(&p, args[0], asJSON, signals)
	})
	return cmd
}

func (a *app) acquire(p *permitFlags, name string, asJSON bool, signals <-chan os.Signal) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Close(signals)
	sem, err := p.semaphore(s.client, name, berth.WithoutRenewal())
	if err != nil {
		return err
	}
	lease, err := run.Wait(p.config(a, s, sem, signals))
	if err != nil {
		return err
	}
	return a.handOut(s.client, lease, asJSON, signals)
}

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
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	text, err := lease.Detach(ctx)
	if err != nil {
		return err
	}
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
	return errors.Join(err, client.ReleaseHandle(ctx, text))
}

// leaseOf is the id of a detached lease, as "berth show" has it.
func leaseOf(handle string) string { return handle[strings.LastIndex(handle, "/")+1:] }

func (a *app) renewCommand() *cobra.Command {
	var asJSON bool
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
	cmd.Flags().BoolVar(&asJSON, "json", false, "print how long it lasts now")
	cmd.RunE = runs(func(_ *cobra.Command, args []string) error {
		text, err := a.readHandle(args[0])
		if err != nil {
			return err
		}
		return a.call(func(ctx context.Context, s *session) error {
			left, err := s.client.RenewHandle(ctx, text)
			if err != nil || !asJSON {
				return err
			}
			return a.printJSON(map[string]any{"handle": text, "lease": leaseOf(text), "valid_ms": left.Milliseconds()})
		})
	})
	return cmd
}

func (a *app) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "release HANDLE",
		Short: "Release a permit from \"berth acquire\"",
		Long: `Release a permit from "berth acquire". HANDLE can be - to read it from standard
input. Exits with 76 when the lease was lost before.`,
		Example: `  berth release "$handle"`,
		GroupID: groupUse,
		Args:    takes(1, 1, "the handle is"),
		RunE: runs(func(_ *cobra.Command, args []string) error {
			text, err := a.readHandle(args[0])
			if err != nil {
				return err
			}
			return a.call(func(ctx context.Context, s *session) error { return s.client.ReleaseHandle(ctx, text) })
		}),
	}
}

func (a *app) readHandle(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	b, err := io.ReadAll(io.LimitReader(a.stdin, maxHandle))
	if err != nil {
		return "", fmt.Errorf("read the handle: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return "", exit.Usagef("no handle on standard input")
	}
	return text, nil
}
