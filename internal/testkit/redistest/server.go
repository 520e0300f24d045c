package redistest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redisserver"
)

// Option configures Start.
type Option func(*redisserver.Config)

// WithConfig appends lines of redis.conf, for example "maxmemory 3mb". They override what
// Start sets.
func WithConfig(lines ...string) Option {
	return func(c *redisserver.Config) { c.Lines = append(c.Lines, lines...) }
}

// WithEnv adds variables ("NAME=value") to the server's environment.
func WithEnv(vars ...string) Option {
	return func(c *redisserver.Config) { c.Env = append(c.Env, vars...) }
}

// WithTCP makes the server listen on a free port of 127.0.0.1, too; see Server.Addr. A
// restart keeps the port.
func WithTCP() Option {
	return func(c *redisserver.Config) { c.TCP = true }
}

// Server is a redis-server that belongs to the tests. It listens on a unix
// socket and keeps no data, unless its options say otherwise. Its methods may
// be called from several goroutines.
type Server struct {
	*redisserver.Server

	certDir string
}

// Start starts a redis-server, which runs until the test ends, and returns when it answers.
// If it cannot be started, Start fails the test and leaves nothing behind.
// $BERTH_REDIS_SERVER names the program to run instead of the redis-server on PATH.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func start(opts []Option) (*Server, error) {
	var c redisserver.Config
	for _, o := range opts {
		o(&c)
	}
	s, err := redisserver.Start(c)
	return &Server{Server: s}, err
}

// NeedsShardChannels skips the test before Redis 7.0, which berth needs on a Cluster.
func NeedsShardChannels(t testing.TB) {
	t.Helper()
	if program, err := redisserver.Find(); err == nil && redisserver.BeforeSeven(program) {
		t.Skip("in a Cluster berth needs Redis 7.0: before it there were no shard channels")
	}
}

// NeedsReadOnlyScripts skips the test before Redis 7.0, which has no EVAL_RO, and no rights to read
// keys alone.
func NeedsReadOnlyScripts(t testing.TB) {
	t.Helper()
	if program, err := redisserver.Find(); err == nil && redisserver.BeforeSeven(program) {
		t.Skip("Redis 6.2 has no EVAL_RO")
	}
}

// Denied returns the commands, keys and channels that the server has denied, from its ACL
// LOG. It leaves out the commands with which clients introduce themselves, which may fail.
func (s *Server) Denied(t testing.TB) (all []string) {
	t.Helper()
	for _, entry := range s.Do(t, "ACL", "LOG", "1000").([]any) {
		if what := fmt.Sprint(entry.(map[any]any)["object"]); what != "client" && what != "client|setinfo" {
			all = append(all, what)
		}
	}
	return all
}

// Client returns a client on the unix socket, which is closed when the test ends. The
// functions may change its options.
func (s *Server) Client(t testing.TB, opts ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := &redis.Options{Network: "unix", Addr: s.Socket()}
	for _, opt := range opts {
		opt(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it already
	return c
}

// Patient makes a client wait for a server that a busy machine holds up, instead of sending
// the command again, which the server would then execute twice.
func Patient(o *redis.Options) { o.ReadTimeout = time.Minute }

// Do runs one command on a new connection and returns the reply. An error fails the test.
func (s *Server) Do(t testing.TB, args ...any) any {
	t.Helper()
	o := &redis.Options{Network: "unix", Addr: s.Socket(), PoolSize: 1}
	Patient(o)
	c := redis.NewClient(o)
	defer c.Close()
	reply, err := c.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// Restart starts the server again with the same configuration, directory and addresses, and
// returns when it answers. A running server is first shut down with SIGTERM. What it
// remembers depends on its persistence: nothing by default.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.Server.Restart(); err != nil {
		t.Fatal(err)
	}
}
