package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/connect"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/local"
	"github.com/berth-go/berth/cmd/berth/internal/run"
	"github.com/berth-go/berth/cmd/berth/internal/value"
)

const (
	// defaultIdle is how long the machine's own store stays without clients.
	defaultIdle = 30 * time.Second
	// callTimeout bounds the commands that ask one thing and print the answer.
	callTimeout = 5 * time.Second
	// closeTimeout bounds the clean-up at the end. What is not given back by then expires
	// by itself.
	closeTimeout = 2 * time.Second
	// awayTimeout is the same while Redis does not answer anyway.
	awayTimeout = 200 * time.Millisecond
	// answerTimeout is how long --no-wait waits for Redis, and startTimeout how long for
	// this machine's own store, which may have to be started.
	answerTimeout = 1500 * time.Millisecond
	startTimeout  = 10 * time.Second

	storeName = "local-store" // the hidden command that serves it
)

// session is an open connection to wherever the semaphores are.
type session struct {
	rdb     redis.UniversalClient
	client  *berth.Client
	health  *run.Health
	timeout time.Duration // answerTimeout or startTimeout
}

// open returns a session for the Redis of the flags and the environment. It sends
// nothing yet.
func (a *app) open() (*session, error) {
	rdb, err := a.redis()
	if err != nil {
		return nil, err
	}
	s := &session{rdb: rdb, health: &run.Health{}, timeout: answerTimeout}
	if source, _ := a.redisSource(); source == "" {
		s.timeout = startTimeout
	}
	rdb.AddHook(s.health)
	if s.client, err = berth.New(rdb, berth.Prefix(a.prefix), berth.Logger(slog.New(warnings{a}))); err != nil {
		rdb.Close()
		return nil, err
	}
	return s, nil
}

// openFor is open for semaphores of these names, which must be valid.
func (a *app) openFor(names []string) (*session, error) {
	s, err := a.open()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := s.client.Semaphore(name, 0); err != nil {
			s.Close(nil)
			return nil, err
		}
	}
	return s, nil
}

// Close gives back what is held, cancels what waits, and disconnects. It ends early when
// interrupt delivers, or when Redis does not answer: the rest expires by itself.
func (s *session) Close(interrupt <-chan os.Signal) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = s.client.Close()
		_ = s.rdb.Close()
	}()
	timeout := closeTimeout
	if since, _ := s.health.Outage(); !since.IsZero() {
		timeout = awayTimeout
	}
	select {
	case <-closed:
	case <-interrupt:
	case <-time.After(timeout):
	}
}

func (a *app) redis() (redis.UniversalClient, error) {
	source, raw := a.redisSource()
	if source == "" {
		dir, err := local.Dir()
		if err != nil {
			return nil, exit.Usagef("%w", err)
		}
		if _, err := idleTime(); err != nil {
			return nil, exit.Usagef("%w", err)
		}
		if !a.quiet {
			fmt.Fprintf(a.stderr, "berth: no Redis configured: using this machine's own store (%s)\n", dir)
		}
		store := &local.Store{Dir: dir, Command: func() *exec.Cmd { return storeProcess(dir) }}
		if a.startNothing {
			store.Command = noStore
		}
		if err := store.Check(); err != nil {
			return nil, exit.Errorf(exit.Unavailable, "%w", err)
		}
		return connect.Through(store.Dial), nil
	}
	target, err := connect.Parse(raw)
	if err != nil {
		return nil, exit.Usagef("the Redis URL from %s cannot be used: %w", source, err)
	}
	return target.Client(), nil
}

// redisSource returns the URL and where it comes from, or two empty strings.
func (a *app) redisSource() (source, raw string) {
	if a.redisURL != "" {
		return "--redis", a.redisURL
	}
	for _, name := range []string{"BERTH_REDIS_URL", "REDIS_URL"} {
		if raw := os.Getenv(name); raw != "" {
			return "$" + name, raw
		}
	}
	return "", ""
}

// explain adds to an error about Redis which server it is, and where its URL comes from.
func (a *app) explain(err error) error {
	source, raw := a.redisSource()
	target, invalid := connect.Parse(raw)
	op, network := errors.AsType[*net.OpError](err)
	if invalid != nil || network && op.Op == "listen" { // it is this machine's own store, or a port of this machine
		return err
	}
	return exit.Errorf(exit.Unavailable, "%s", target.Explain(err, source))
}

// self returns a command that runs this program again.
func self(args ...string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	cmd := exec.Command(path, args...)
	// The process is called berth, whatever the name of this file is.
	cmd.Args[0] = "berth"
	return cmd
}

// storeProcess returns the command that serves this machine's own store. It gets only one
// setting of the environment, because it outlives this process and must not keep its
// secrets.
func storeProcess(dir string) *exec.Cmd {
	cmd := self(storeName, "--dir", dir)
	cmd.Env = []string{"BERTH_LOCAL_IDLE=" + os.Getenv("BERTH_LOCAL_IDLE")}
	return cmd
}

// idleTime reads $BERTH_LOCAL_IDLE.
func idleTime() (time.Duration, error) {
	s := os.Getenv("BERTH_LOCAL_IDLE")
	if s == "" {
		return defaultIdle, nil
	}
	d, err := value.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, errors.New("BERTH_LOCAL_IDLE is not a duration such as 30s")
	}
	return d, nil
}

func (s *session) ping(ctx context.Context) error { return s.rdb.Ping(ctx).Err() }

// with opens a session for f.
func (a *app) with(f func(s *session) error) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Close(nil)
	return f(s)
}

// call runs one short request against the semaphores.
func (a *app) call(f func(ctx context.Context, s *session) error) error {
	return a.with(func(s *session) error {
		return ask(func(ctx context.Context) error { return f(ctx, s) })
	})
}

// list runs a request through an Inspector that goes through all names.
func (a *app) list(f func(ctx context.Context, in *berth.Inspector) error) error {
	return a.with(func(s *session) error { return f(context.Background(), s.client.Inspector()) })
}

// inspect runs one short request through an Inspector.
func (a *app) inspect(f func(ctx context.Context, in *berth.Inspector) error) error {
	return a.call(func(ctx context.Context, s *session) error { return f(ctx, s.client.Inspector()) })
}
