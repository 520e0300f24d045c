package session

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// server is the embedded store behind a client that does with each command what the test says.
type server struct {
	*testing.T
	*Session

	mu     sync.Mutex
	begun  time.Time
	next   func(ctx context.Context, cmd redis.Cmder, pass func() error) error // guarded by mu; nil: pass
	seen   map[string][]time.Duration                                          // guarded by mu; when commands were sent, by name
	args   map[string][]any                                                    // guarded by mu; of the last with a name
	logged bytes.Buffer                                                        // guarded by mu
}

// inBubble runs a test on a session that has sent nothing yet.
func inBubble(t *testing.T, test func(*server)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mr := redistest.NewEmbedded(t)
		s := &server{T: t, begun: time.Now(), seen: map[string][]time.Duration{}, args: map[string][]any{}}
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: redistest.NewFaults(t).Dialer(redistest.Embedded(mr)), PoolSize: 1000})
		t.Cleanup(func() { _ = rdb.Close() })
		rdb.AddHook(s)
		s.Session = New(rdb, "berth", slog.New(slog.NewTextHandler(s, nil)))
		t.Cleanup(s.Close)
		test(s)
	})
}

// on sets what becomes of the commands with a name.
func (s *server) on(name string, f func(ctx context.Context, cmd redis.Cmder, pass func() error) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = func(ctx context.Context, cmd redis.Cmder, pass func() error) error {
		if cmd.Name() != name {
			return pass()
		}
		return f(ctx, cmd, pass)
	}
}

// sent returns when commands with a name were sent.
func (s *server) sent(name string) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[name]
}

// warnings returns how many there were.
func (s *server) warnings() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.logged.String(), "level=WARN")
}

// warned reports whether the log has these words.
func (s *server) warned(words string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.logged.String(), words)
}

// Write implements io.Writer, for the log.
func (s *server) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged.Write(line)
}

// DialHook implements redis.Hook.
func (s *server) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessPipelineHook implements redis.Hook.
func (s *server) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return next(ctx, cmds) }
}

// ProcessHook implements redis.Hook.
func (s *server) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.mu.Lock()
		name, do := cmd.Name(), s.next
		s.seen[name] = append(s.seen[name], time.Since(s.begun))
		s.args[name] = cmd.Args()
		s.mu.Unlock()
		pass := func() error { return next(ctx, cmd) }
		if do == nil {
			return pass()
		}
		return do(ctx, cmd, pass)
	}
}

// reply is an error that a server sends.
type reply string

func (r reply) Error() string { return string(r) }

// RedisError implements redis.Error.
func (reply) RedisError() {}

// refuse has cmd answered with an error.
func refuse(cmd redis.Cmder, text string) error {
	cmd.SetErr(reply(text))
	return cmd.Err()
}

// hang gives cmd no answer.
func hang(ctx context.Context, cmd redis.Cmder) error {
	<-ctx.Done()
	cmd.SetErr(ctx.Err())
	return cmd.Err()
}
