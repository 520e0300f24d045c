package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthprom"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/berthweb"
	"github.com/berth-go/berth/cmd/berth/internal/doctor"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
	"github.com/berth-go/berth/cmd/berth/internal/serve"
	"github.com/berth-go/berth/cmd/berth/internal/value"
)

const serveLong = `Serve web pages about the semaphores, and the same as JSON: which are stuck, who
holds and who waits, and what operators have done. However many browsers look,
Redis is asked once, for 2 % of its time at most, and not at all while nobody
looks.

Without flags only this machine can reach it, and nothing can be changed. It
refuses to start if it would be open by mistake: an address other than a
loopback one needs users, and passwords need TLS, here or in a proxy
(--behind-tls-proxy).

Users are lines of a file that no other user may read:
  --auth-file    USER:HASH:ROLE, as "berth serve hash-password" prints them
  --token-file   NAME:TOKEN:ROLE, for programs that send a bearer token
The role is view or operate; operate also needs --allow-write. A proxy that has
its own login names the user in the header of --user-header.`

// serveFlags are the flags of "berth serve", most of them in the form that their packages have.
type serveFlags struct {
	serve.Config
	web       berthweb.Options
	watch     berthwatch.Options
	namesFile string
	group     []string
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve web pages about the semaphores",
		Long:  serveLong,
		Example: `  berth serve
  berth serve --allow-write --require-reason
  berth serve --listen :7357 --auth-file users --tls-cert c.pem --tls-key k.pem`,
		GroupID: groupLook,
		Args:    takesNo("arguments"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Listen, "listen", "127.0.0.1:7357", "the `ADDRESS:PORT` to listen on")
	flags.StringSliceVar(&f.web.Hosts, "allow-host", nil, "another host `NAME` of the pages, besides localhost and the\naddress")
	flags.StringVar(&f.BasePath, "base-path", "", "the `PATH` prefix of requests, if no proxy strips it")
	mayBeEmpty(flags, "base-path")
	flags.BoolVar(&f.AllowWrite, "allow-write", false, "let users with the role operate make changes")
	flags.BoolVar(&f.web.RequireReason, "require-reason", false, "refuse changes without a reason")
	flags.StringVar(&f.AuthFile, "auth-file", "", "`FILE` of users with passwords")
	flags.StringVar(&f.TokenFile, "token-file", "", "`FILE` of programs with tokens")
	flags.StringVar(&f.UserHeader, "user-header", "", "the `NAME` of the header in which a trusted proxy names the\nuser, who may then operate")
	flags.StringSliceVar(&f.TrustedProxies, "trusted-proxy", nil, "`NETWORK` of the proxies whose headers are believed")
	flags.StringVar(&f.Cert, "tls-cert", "", "`FILE` with the certificate")
	flags.StringVar(&f.Key, "tls-key", "", "`FILE` with its key")
	flags.BoolVar(&f.BehindTLSProxy, "behind-tls-proxy", false, "a proxy in front speaks TLS")
	flags.StringSliceVar(&f.watch.Names, "names", nil, "look at these `NAMES`, with commas between, and search for no\nothers")
	flags.StringVar(&f.namesFile, "names-file", "", "the same from a `FILE`, a name a line")
	flags.Var(value.Duration(&f.watch.Every, time.Second), "every", "how often to look, at least 250ms")
	flags.StringVar(&f.MetricsListen, "metrics-listen", "", "the `ADDRESS:PORT` of /metrics for Prometheus, without a login")
	flags.StringSliceVar(&f.group, "group", nil, "count the semaphores together that match this `PATTERN`, on\nthe list and in the metrics")
	flags.BoolVar(&f.AccessLog, "access-log", false, "write a line for each request to standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(flags.Changed("names")); err != nil {
			return err
		}
		return a.with(func(s *session) error { return a.serve(cmd.Context(), s, &f) }, f.watch.Names...)
	}
	cmd.AddCommand(a.hashCommand())
	return cmd
}

// check reads the names, and refuses invalid combinations.
func (f *serveFlags) check(named bool) error {
	if f.watch.Every < leastEvery {
		return exit.Usagef("--every %v: at least %v", f.watch.Every, leastEvery)
	}
	names := f.watch.Names
	if f.namesFile != "" {
		text, err := os.ReadFile(f.namesFile)
		if err != nil {
			return exit.Usagef("--names-file: %w", err)
		}
		names = append(names, strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' })...)
	}
	slices.Sort(names)
	f.watch.Names, f.watch.Leases = slices.Compact(names), f.MetricsListen != ""
	switch {
	case (named || f.namesFile != "") && len(names) == 0:
		return exit.Usagef("--names, --names-file: they name none")
	case f.AllowWrite && readOnly():
		return exit.Errorf(exit.NoPermission, "--allow-write: %s is set", readOnlyVariable)
	}
	if err := f.Check(); err != nil {
		return exit.Usagef("%w", err)
	}
	_, err := berthweb.New(nil, nil, f.web) // which has only the hosts by now
	if invalid, ok := errors.AsType[*berth.InvalidError](err); ok {
		return exit.Usagef("--allow-host %s", invalid.Reason)
	}
	return nil
}

func (a *app) serve(ctx context.Context, s *session, f *serveFlags) (err error) {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM)
	defer stop()
	in := s.in
	sampler := berthwatch.New(in, f.watch)
	if f.Metrics, err = metrics(sampler, in, f.group); err != nil {
		return err
	}
	defer start(sampler)()
	f.web.Group = f.group
	f.web.Redis, f.web.Command, f.web.Version, f.web.Logger = a.where, a.commandLine(), version(), slog.New(slog.NewTextHandler(a.stderr, nil))
	f.web.Doctor = func(ctx context.Context) ([]berthweb.Finding, error) { return a.looked(ctx, s) }
	err = serve.Serve(ctx, f.Config, sampler, in, f.web, func(url string) { fmt.Fprintf(a.stderr, "berth: serving %s\n", url) })
	if err != nil {
		return exit.Errorf(exit.Failure, "the pages cannot be served: %w", err)
	}
	return nil
}

// metrics are what Prometheus gets: of the semaphores, and of this process.
func metrics(sampler *berthwatch.Sampler, in *berthadmin.Inspector, group []string) (http.Handler, error) {
	semaphores, err := berthprom.NewCollector(sampler, in, berthprom.Options{Group: group})
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(semaphores, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}

// looked returns what the doctor finds by only reading.
func (a *app) looked(ctx context.Context, s *session) ([]berthweb.Finding, error) {
	report, err := doctor.Examine(ctx, doctor.Config{Redis: s.rdb, Prefix: a.prefix, Local: s.local != nil, Look: true})
	if err != nil {
		return nil, err
	}
	var all []berthweb.Finding
	for _, f := range report.Findings {
		all = append(all, berthweb.Finding{Check: f.Check, Status: string(f.Status), Found: f.Found, Advice: f.Advice})
	}
	return all, nil
}

func (a *app) hashCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hash-password USER",
		Short: "Print a line for an auth file",
		Long: `Print a line for an auth file of "berth serve". The password is a line of
standard input; on a terminal it is asked for, and not shown.`,
		Example: `  berth serve hash-password --role operate ann >> users`,
		Args:    takes(1, 1, "the user's name is"),
	}
	role := cmd.Flags().String("role", "view", "what the user may do: view or operate")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		password, err := a.password()
		if err != nil {
			return err
		}
		line, err := serve.Hash(args[0], password, *role)
		if err != nil {
			return exit.Usagef("%w", err)
		}
		return a.print(line + "\n")
	}
	return cmd
}

// password reads one line.
func (a *app) password() (string, error) {
	if isTerminal(a.stdin) { // wherever the prompt goes: it would show what is typed
		fmt.Fprint(a.stderr, "Password: ")
		defer fmt.Fprintln(a.stderr)
		return readPassword(int(os.Stdin.Fd()))
	}
	line, err := bufio.NewReader(io.LimitReader(a.stdin, 1<<12)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// readPassword reads a line from a terminal without echo. A signal that ends it restores the
// terminal first.
func readPassword(terminal int) (string, error) {
	was, err := term.GetState(terminal)
	if err != nil {
		return "", err
	}
	signals, stop := job.Catch()
	defer stop()
	var text []byte
	done := make(chan error, 1)
	go func() {
		var err error
		text, err = term.ReadPassword(terminal)
		done <- err
	}()
	select {
	case err := <-done:
		return string(text), err
	case sig := <-signals:
		_ = term.Restore(terminal, was) // it fails if the terminal has gone
		return "", exit.Signal(job.Number(sig))
	}
}
