package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/cmd/berth/internal/agent"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/private"
	"github.com/berth-go/berth/cmd/berth/internal/value"
)

const agentLong = `Let programs in any language take permits, over a unix socket. The agent speaks
to Redis, or to this machine's own store; the programs speak HTTP to the agent:

  curl -N --unix-socket /tmp/berth-1000/agent.sock http://agent/v1/hold \
    -d '{"name":"api","limit":5,"wait_ms":60000}'

Each line of the answer is a JSON object: queued, granted, renewed, stop, lost,
released or refused. Closing the connection gives the permit back, whatever
happened to the program. The clients for Python, Node, Ruby and bash are single
files.

The socket is --listen, or $BERTH_AGENT_SOCKET, or agent.sock beside the local
store. Only this user can use it. On a loopback TCP address every program of the
machine can, so requests need a token (Authorization: Bearer TOKEN).

On TERM, INT or HUP the agent takes no more requests. With --drain waiters and
holders continue for that long, while a new agent can serve the same socket, or
one that systemd hands to both. Then it grants nothing more, asks holders to
stop, and after --grace releases what is still held. A second signal ends it at
once; what is held then expires.`

// metricsTimeout bounds how long a request for metrics may take.
const metricsTimeout = 30 * time.Second

// agentFlags are the flags of "berth agent".
type agentFlags struct {
	agent.Options
	listen, metrics, tokenFile string
	probe                      bool
}

func (a *app) agentCommand() *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Serve permits to programs in any language",
		Long:  agentLong,
		Example: `  berth agent
  berth agent --listen /run/app/agent.sock
  berth agent --listen 127.0.0.1:7358 --token-file token
  berth agent --check`,
		GroupID: groupUse,
		Args:    takesNo("arguments"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "", "the `PATH` of the socket, or a loopback ADDRESS:PORT\n(default: $BERTH_AGENT_SOCKET, or beside the local store)")
	flags.StringVar(&f.tokenFile, "token-file", "", "`FILE` with the token that every request must carry")
	flags.StringVar(&f.metrics, "metrics-listen", "", "the `ADDRESS:PORT` of /metrics for Prometheus, without a token")
	flags.Var(value.Duration(&f.Drain, 0), "drain", "how long waiters and holders continue when the agent ends")
	flags.Var(value.Duration(&f.Grace, 10*time.Second), "grace", "how long holders have to stop after that")
	flags.Var(value.Int(&f.Connections, agent.DefaultConnections), "max-connections", "how many connections there can be")
	flags.Var(value.Int(&f.Names, agent.DefaultNames), "max-names", "how many semaphores can be in use through it")
	flags.BoolVar(&f.probe, "check", false, "ask the running agent whether it takes requests, and exit\nwith 0 or 69; it can take them without Redis")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if f.probe {
			return a.checkAgent(cmd.Context(), f.listen)
		}
		return a.with(func(s *session) error { return a.agent(cmd.Context(), s, &f) })
	}
	return cmd
}

// check reads the token, and refuses what would be open by mistake or cannot work.
func (f *agentFlags) check() (err error) {
	if f.tokenFile != "" {
		if err := private.CheckSecret(f.tokenFile); err != nil {
			return exit.Usagef("--token-file: %w", err)
		}
		text, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return exit.Usagef("--token-file: %w", err)
		}
		if f.Token = strings.TrimSpace(string(text)); f.Token == "" {
			return exit.Usagef("--token-file %s: it is empty", f.tokenFile)
		}
	}
	if f.listen == "" {
		if f.listen, err = agent.DefaultSocket(); err != nil {
			return exit.Usagef("%w", err)
		}
	}
	switch {
	case f.Grace < 0:
		return exit.Usagef("--grace %v: it is negative", f.Grace)
	case f.Drain < 0:
		return exit.Usagef("--drain %v: it is negative", f.Drain)
	case f.Connections < 1:
		return exit.Usagef("--max-connections %d: it must be at least 1", f.Connections)
	case f.Names < 1:
		return exit.Usagef("--max-names %d: it must be at least 1", f.Names)
	case net.ParseIP(strings.Trim(f.listen, "[]")) != nil || f.listen == "localhost":
		return exit.Usagef("--listen %s: an address needs a port, such as 127.0.0.1:7358", f.listen)
	case f.metrics != "" && !isHostPort(f.metrics):
		return exit.Usagef("--metrics-listen %q: it is not an ADDRESS:PORT such as 127.0.0.1:9358", f.metrics)
	case !agent.IsAddress(f.listen):
		return nil
	}
	if err := agent.CheckAddress(f.listen); err != nil {
		return exit.Usagef("--listen: %w", err)
	}
	if f.Token == "" && !f.probe {
		return exit.Usagef("--listen %s: every program of this machine could take permits: add --token-file", f.listen)
	}
	return nil
}

func isHostPort(address string) bool {
	_, _, err := net.SplitHostPort(address)
	return err == nil
}

// checkAgent is for the probes of whoever starts an agent. One that cannot reach Redis is no reason
// to start another.
func (a *app) checkAgent(ctx context.Context, where string) error {
	away, err := agent.Check(ctx, where)
	if err != nil {
		return exit.Errorf(exit.Unavailable, "%s: %w", where, err)
	}
	if away != "" {
		a.notices.Warnf("the agent takes requests, but refuses them: %s", away)
	}
	return nil
}

// agent serves until a signal comes, or somebody removes the socket.
func (a *app) agent(ctx context.Context, s *session, f *agentFlags) error {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	listener, err := f.open(ctx, cancel)
	if err != nil {
		return exit.Errorf(exit.Failure, "the agent cannot listen: %w", err)
	}
	defer listener.Close()
	fmt.Fprintf(a.stderr, "berth: agent on %s\n", listener.Addr())
	f.Health, f.Log = s.health, a.notices.Printf
	if fit := agent.Fit(f.Connections); fit < f.Connections {
		a.notices.Warnf("only %d connections fit the limit of open files: raise it (ulimit -n, LimitNOFILE=)", fit)
		f.Connections = fit
	}
	server := agent.New(s.client, f.Options)
	if err := a.serveMetrics(ctx, f.metrics, server.Metrics()); err != nil {
		return exit.Errorf(exit.Failure, "--metrics-listen: %w", err)
	}
	ready(ctx)
	if err := server.Serve(ctx, listener); err != nil {
		return exit.Errorf(exit.Failure, "the agent cannot serve: %w", err)
	}
	if cause := context.Cause(ctx); errors.Is(cause, errNoSocket) {
		return exit.Errorf(exit.Failure, "%s: %w", f.listen, cause)
	}
	return nil
}

var errNoSocket = errors.New("the socket was removed, so no program can reach the agent any more")

// serveMetrics serves h on an address of its own, if there is one, for as long as the process lives.
func (a *app) serveMetrics(ctx context.Context, address string, h http.Handler) error {
	if address == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", h)
	server := &http.Server{Handler: mux, ReadTimeout: metricsTimeout, WriteTimeout: metricsTimeout, IdleTimeout: metricsTimeout}
	go func() { _ = server.Serve(listener) }() // for as long as there is an agent
	a.notices.Printf("metrics on http://%s/metrics", listener.Addr())
	return nil
}

// open listens, and cancels when nobody can reach the listener any more.
func (f *agentFlags) open(ctx context.Context, cancel context.CancelCauseFunc) (net.Listener, error) {
	if agent.Inherits() {
		listener, err := agent.Inherited()
		if err == nil && listener.Addr().Network() != "unix" && f.Token == "" {
			err = errors.New("every program that reaches the socket of systemd could take permits: add --token-file")
		}
		return listener, err
	}
	if agent.IsAddress(f.listen) {
		return new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	}
	socket, err := agent.Listen(ctx, f.listen)
	if err != nil {
		return nil, err
	}
	go func() {
		if socket.Watch(ctx); ctx.Err() == nil {
			cancel(errNoSocket)
		}
	}()
	return socket, nil
}

// ready tells systemd, if that waits for it, that units which need this one can start.
func ready(ctx context.Context) {
	conn, err := new(net.Dialer).DialContext(ctx, "unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return // nobody waits
	}
	defer conn.Close()
	_, _ = conn.Write([]byte("READY=1"))
}
