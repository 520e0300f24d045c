package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startTimeout bounds every wait for a server: to answer, to stand still, to end.
const startTimeout = 20 * time.Second

// Option configures Start.
type Option func(*Server)

// WithConfig appends lines of redis.conf, for example "maxmemory 3mb". They
// come last and so win over what Start sets.
func WithConfig(lines ...string) Option {
	return func(s *Server) { s.config = append(s.config, lines...) }
}

// WithEnv adds variables ("NAME=value") to the server's environment.
func WithEnv(vars ...string) Option {
	return func(s *Server) { s.env = append(s.env, vars...) }
}

// WithTCP also listens on a free port of 127.0.0.1; see Server.Addr. A restart
// keeps the port.
func WithTCP() Option {
	return func(s *Server) { s.tcp = true }
}

// Server is a redis-server that belongs to the tests. It listens on a unix
// socket and keeps no data, unless its options say otherwise. Its methods may
// be called from several goroutines.
type Server struct {
	config, env []string
	args        []string // after the file's name
	tcp         bool
	dir         string
	certDir     string
	port        int

	mu   sync.Mutex
	proc *process // guarded by mu
}

// Start runs a redis-server until the test ends and returns when it answers.
// It fails the test if there is none to run or if it does not come up; nothing
// is left behind then. $BERTH_REDIS_SERVER names the program to run instead of
// the redis-server on PATH.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

func start(opts []Option) (*Server, error) {
	s := &Server{}
	for _, o := range opts {
		o(s)
	}
	var err error
	if s.dir, err = os.MkdirTemp(shortTempDir(), "berth"); err != nil {
		return nil, err
	}
	if err = s.firstRun(); err != nil {
		_ = os.RemoveAll(s.dir)
		return nil, err
	}
	return s, nil
}

// firstRun tries again with TCP, because a port that was free when it was
// chosen may be taken when the server asks for it.
func (s *Server) firstRun() (err error) {
	for range 3 {
		if s.tcp {
			if s.port, err = freePort(); err != nil {
				return err
			}
		}
		if err = s.run(); err == nil || !s.tcp {
			return err
		}
	}
	return err
}

// close ends the server, whatever state it is in, and removes its directory.
func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.kill()
	_ = os.RemoveAll(s.dir)
}

// run starts the process and waits until it answers. The caller holds mu or is
// the only one to know s.
func (s *Server) run() error {
	cmd, err := s.command()
	if err != nil {
		return err
	}
	logs, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer logs.Close()
	cmd.Stdout, cmd.Stderr = logs, logs
	proc, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("cannot start redis-server: %w", err)
	}
	s.proc = proc
	if err = s.proc.poll("answer", s.answers); err != nil {
		s.proc.kill()
		return fmt.Errorf("%w; its log ends: %s", err, s.logTail())
	}
	return nil
}

// command writes the configuration, complete, so that no file of the machine
// has a say.
func (s *Server) command() (*exec.Cmd, error) {
	program, err := findServer()
	if err != nil {
		return nil, err
	}
	lines := []string{
		fmt.Sprintf("dir %q", s.dir),
		fmt.Sprintf("unixsocket %q", s.Socket()),
		"unixsocketperm 700",
		fmt.Sprintf("port %d", s.port),
		"bind 127.0.0.1",
		"daemonize no",
		`save ""`,
		"appendonly no",
	}
	text := strings.Join(append(lines, understood(program, s.config)...), "\n") + "\n"
	file := filepath.Join(s.dir, "redis.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, append([]string{file}, s.args...)...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), s.env...)
	return cmd, nil
}

// understood leaves out what a server before Redis 7.0 would not start with: there
// DEBUG needs no permission.
func understood(program string, config []string) []string {
	debug := func(line string) bool { return strings.HasPrefix(line, "enable-debug-command ") }
	if !slices.ContainsFunc(config, debug) {
		return config
	}
	if !beforeSeven(program) {
		return config
	}
	return slices.DeleteFunc(slices.Clone(config), debug)
}

func beforeSeven(program string) bool {
	version, err := exec.Command(program, "--version").Output()
	return err == nil && bytes.Contains(version, []byte("v=6."))
}

// NeedsShardChannels skips a test of what berth needs Redis 7.0 for: a Cluster.
func NeedsShardChannels(t testing.TB) {
	t.Helper()
	if program, err := findServer(); err == nil && beforeSeven(program) {
		t.Skip("in a Cluster berth needs Redis 7.0: before it there were no shard channels")
	}
}

// Denied returns what the server has denied its users: commands, keys and channels, from
// its ACL LOG. It leaves out how
// clients introduce themselves, which they try and do without.
func (s *Server) Denied(t testing.TB) (all []string) {
	t.Helper()
	for _, entry := range s.Do(t, "ACL", "LOG", "1000").([]any) {
		if what := fmt.Sprint(entry.(map[any]any)["object"]); what != "client" && what != "client|setinfo" {
			all = append(all, what)
		}
	}
	return all
}

// answers tells whether the server executes commands. An error such as NOAUTH
// is an answer too; LOADING is not.
func (s *Server) answers() bool {
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(context.Background(), "unix", s.Socket())
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	reply := make([]byte, 64)
	if _, err = conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	n, err := conn.Read(reply)
	return err == nil && !bytes.HasPrefix(reply[:n], []byte("-LOADING"))
}

func (s *Server) logTail() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(text[max(0, len(text)-1000):])
}

// Socket returns the path of the unix socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "s") }

// URL returns the address of the unix socket as go-redis and berth parse it.
func (s *Server) URL() string { return "unix://" + s.Socket() }

// Addr returns the TCP address, 127.0.0.1:port. It is empty without WithTCP.
func (s *Server) Addr() string {
	if !s.tcp {
		return ""
	}
	return fmt.Sprintf("127.0.0.1:%d", s.port)
}

// Dir returns the server's directory, where its data and its log ("log") are.
func (s *Server) Dir() string { return s.dir }

// Client returns a client on the unix socket, closed when the test ends. The
// functions change its options before it is made.
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

// Do runs one command on a connection of its own and returns the reply, nil
// for none. An error fails the test.
func (s *Server) Do(t testing.TB, args ...any) any {
	t.Helper()
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket(), PoolSize: 1})
	defer c.Close()
	reply, err := c.Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		t.Fatalf("%v: %v", args, err)
	}
	return reply
}

// Stop suspends the server (SIGSTOP) and returns when it stands still.
// Connections stay open and accept requests, which it executes after Cont. It
// panics if the server has gone.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.proc.stop(); err != nil {
		panic(err)
	}
}

// Cont lets a suspended server go on (SIGCONT). It does nothing to a running
// one, and panics if the server has gone.
func (s *Server) Cont() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.proc.os.Signal(sigCont); err != nil {
		panic(err)
	}
}

// Kill ends the server at once (SIGKILL) and returns when it has gone. Its
// directory stays, for Restart.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.kill()
}

// Restart starts the server again with the same configuration, directory and
// addresses, and returns when it answers. One that still runs is shut down
// first (SIGTERM). What it remembers depends on its persistence: by default
// nothing.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.terminate()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

// findServer returns the program to run, or one sentence on how to get it.
func findServer() (string, error) {
	if program := os.Getenv("BERTH_REDIS_SERVER"); program != "" {
		return program, nil
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", errors.New("redis-server is not on PATH: install it with " +
			"`apt-get install redis-server` (Debian, Ubuntu) or `brew install redis` (macOS), or name one in BERTH_REDIS_SERVER")
	}
	return program, nil
}

// shortTempDir keeps socket paths under the 104 bytes that macOS allows (108
// on Linux) where TMPDIR is long.
func shortTempDir() string {
	if dir := os.TempDir(); len(dir) <= 70 {
		return dir
	}
	return "/tmp"
}

// freePort returns a TCP port of 127.0.0.1 that was free a moment ago and
// leaves room for the cluster bus, 10000 above it.
func freePort() (int, error) {
	for {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return 0, err
		}
		if port+10000 < 1<<16 {
			return port, nil
		}
	}
}
