// Package redisd is the Redis under the benchmarks: a server of their own, or
// one that the user names, what it says of its work, and the removal of keys.
package redisd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/child"
)

// startTimeout bounds the wait for a server of our own.
const startTimeout = 10 * time.Second

// Server is a redis-server that belongs to one run.
type Server struct {
	dir  string
	port int
	proc *child.Process
}

// Start runs a redis-server without persistence on a free port of 127.0.0.1
// and returns when it answers. On failure nothing is left behind; the error
// says what is missing.
func Start(ctx context.Context) (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not on PATH: install it with `apt-get install redis-server` " +
			"(Debian, Ubuntu) or `brew install redis` (macOS), or name a Redis with --redis")
	}
	for range 3 { // a port that was free may be taken when the server asks for it
		var s *Server
		if s, err = start(ctx, program); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func start(ctx context.Context, program string) (*Server, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "berth-bench")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, port: port}
	cmd := exec.Command(program, "--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", dir, "--logfile", filepath.Join(dir, "log"))
	if s.proc, err = child.Start(cmd); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("redis-server cannot be started: %w", err)
	}
	if err := s.await(ctx); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		s.Close()
		return nil, fmt.Errorf("%w; its log ends: %s", err, bytes.TrimSpace(log[max(0, len(log)-500):]))
	}
	return s, nil
}

func (s *Server) await(ctx context.Context) error {
	rdb := redis.NewClient(&redis.Options{Addr: s.addr(), MaxRetries: -1, PoolSize: 1, DialerRetries: 1})
	defer rdb.Close()
	for deadline := time.Now().Add(startTimeout); ; {
		err := rdb.Ping(ctx).Err()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redis-server did not answer within %v", startTimeout)
		}
		select {
		case <-s.proc.Done():
			return errors.New("redis-server ended when it should answer")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *Server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the server's address.
func (s *Server) URL() string { return "redis://" + s.addr() }

// Close ends the server and removes what it had.
func (s *Server) Close() {
	s.proc.Kill()
	_ = os.RemoveAll(s.dir)
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
