// Package redisserver runs redis-servers that belong to this process: for tests, storms
// and benchmarks. It touches no server and no configuration of the machine.
package redisserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berth-go/berth/internal/child"
)

// Timeout bounds every wait for a server: to answer, to stand still, to end.
const Timeout = time.Minute

// Config is how a server is started. The zero one listens on a unix socket and keeps
// no data.
type Config struct {
	Lines []string // of redis.conf, for example "maxmemory 3mb"; they win over what Start sets
	Env   []string // variables ("NAME=value") beside this process's
	Args  []string // after the configuration file's name
	TCP   bool     // it also listens on a free port of 127.0.0.1; a restart keeps the port
}

// Server is a redis-server. Its methods may be called from several goroutines.
type Server struct {
	config Config
	dir    string
	port   int

	mu   sync.Mutex
	proc *child.Process // guarded by mu
}

// Start runs a redis-server and returns when it answers. On failure nothing is left
// behind; the error says what is missing. $BERTH_REDIS_SERVER names the program to run
// instead of the redis-server on PATH.
func Start(c Config) (*Server, error) {
	s := &Server{config: c}
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
		if s.config.TCP {
			if s.port, err = FreePort(); err != nil {
				return err
			}
		}
		if err = s.run(); err == nil || !s.config.TCP {
			return err
		}
	}
	return err
}

// Close ends the server, whatever state it is in, and removes its directory.
func (s *Server) Close() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

// run starts the process and waits until it answers. The caller holds mu or is
// the only one to know s.
func (s *Server) run() error {
	cmd, err := s.command()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	proc, err := child.Start(cmd)
	if err != nil {
		return fmt.Errorf("cannot start redis-server: %w", err)
	}
	s.proc = proc
	if err = s.poll("answer", s.answers); err != nil {
		s.proc.Kill()
		text, _ := os.ReadFile(s.logFile())
		return fmt.Errorf("%w; its log ends: %s", err, text[max(0, len(text)-1000):])
	}
	return nil
}

// command writes the configuration, complete, so that no file of the machine
// has a say.
func (s *Server) command() (*exec.Cmd, error) {
	program, err := Find()
	if err != nil {
		return nil, err
	}
	lines := []string{
		fmt.Sprintf("dir %q", s.dir),
		fmt.Sprintf("logfile %q", s.logFile()),
		fmt.Sprintf("unixsocket %q", s.Socket()),
		"unixsocketperm 700",
		fmt.Sprintf("port %d", s.port),
		"bind 127.0.0.1",
		"daemonize no",
		`save ""`,
		"appendonly no",
	}
	text := strings.Join(append(lines, understood(program, s.config.Lines)...), "\n") + "\n"
	file := filepath.Join(s.dir, "redis.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, append([]string{file}, s.config.Args...)...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), s.config.Env...)
	return cmd, nil
}

// understood leaves out what a server before Redis 7.0 would not start with: there
// DEBUG needs no permission.
func understood(program string, config []string) []string {
	debug := func(line string) bool { return strings.HasPrefix(line, "enable-debug-command ") }
	if !slices.ContainsFunc(config, debug) || !BeforeSeven(program) {
		return config
	}
	return slices.DeleteFunc(slices.Clone(config), debug)
}

// BeforeSeven tells whether program is a Redis older than 7.0.
func BeforeSeven(program string) bool {
	version, err := exec.Command(program, "--version").Output()
	return err == nil && bytes.Contains(version, []byte("v=6."))
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

// Dir returns the server's directory, where its data and its log ("log") are.
func (s *Server) Dir() string { return s.dir }

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// Socket returns the path of the unix socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "s") }

// URL returns the address of the unix socket as go-redis and berth parse it.
func (s *Server) URL() string { return "unix://" + s.Socket() }

// Port returns the TCP port, 0 without TCP.
func (s *Server) Port() int { return s.port }

// Addr returns the TCP address, 127.0.0.1:port. It is empty without TCP.
func (s *Server) Addr() string {
	if s.port == 0 {
		return ""
	}
	return fmt.Sprintf("127.0.0.1:%d", s.port)
}

// Stop suspends the server (SIGSTOP) and returns when it stands still.
// Connections stay open and accept requests, which it executes after Cont. It
// panics if the server has gone.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A signal that is merely sent leaves the server time for another command.
	s.signal(sigStop)
	if err := s.poll("stop", func() bool { return suspended(s.proc.Cmd.Process.Pid) }); err != nil {
		panic(err)
	}
}

// Cont lets a suspended server go on (SIGCONT). It does nothing to a running
// one, and panics if the server has gone.
func (s *Server) Cont() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal(sigCont)
}

// Falter suspends the server again and again, for stopped at a time with running between, until the
// function that it returns is called.
func (s *Server) Falter(stopped, running time.Duration) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var faltering sync.WaitGroup
	faltering.Go(func() {
		for ctx.Err() == nil {
			s.Stop()
			<-time.After(stopped)
			s.Cont()
			<-time.After(running)
		}
	})
	return func() { cancel(); faltering.Wait() }
}

func (s *Server) signal(sig syscall.Signal) {
	if err := s.proc.Cmd.Process.Signal(sig); err != nil {
		panic(err)
	}
}

// Kill ends the server at once (SIGKILL) and returns when it has gone. Its
// directory stays, for Restart.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc.Kill()
}

// Ended is closed when the server has ended.
func (s *Server) Ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.Done()
}

// Restart starts the server again with the same configuration, directory and
// addresses, and returns when it answers. One that still runs is shut down
// first (SIGTERM). What it remembers depends on its persistence: by default
// nothing.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.proc.Cmd.Process.Signal(sigCont)
	_ = s.proc.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.proc.Done():
	case <-time.After(Timeout):
		s.proc.Kill()
	}
	return s.run()
}

// poll waits, with growing pauses, until ok says yes. It fails if the server
// ends first or if it takes longer than Timeout.
func (s *Server) poll(what string, ok func() bool) error {
	deadline := time.Now().Add(Timeout)
	for pause := time.Millisecond; !ok(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("redis-server did not %s within %v", what, Timeout)
		}
		select {
		case <-s.proc.Done():
			return fmt.Errorf("redis-server ended when it should %s", what)
		case <-time.After(pause):
		}
	}
	return nil
}

// ErrMissing means that there is no redis-server to run. It says how to get one.
var ErrMissing = errors.New("redis-server is not on PATH: install it with " +
	"`apt-get install redis-server` (Debian, Ubuntu) or `brew install redis` (macOS), or name one in BERTH_REDIS_SERVER")

// Find returns the program to run, or ErrMissing.
func Find() (string, error) {
	if program := os.Getenv("BERTH_REDIS_SERVER"); program != "" {
		return program, nil
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return "", ErrMissing
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

// Servers have ports of 10000 to 22767, with the bus of a Cluster 10000 above: outside the range
// from which Linux, macOS and Windows choose ports for connections. So none of these takes
// the port of a server that is away for a while.
const (
	firstPort, ports, busOffset = 10000, 12768, 10000

	_ = uint(32768 - (firstPort + ports + busOffset)) // where those of Linux begin
)

// FreePort returns a TCP port of 127.0.0.1 that was free a moment ago, as was the one for the
// bus of a Cluster.
func FreePort() (port int, err error) {
	for range 100 {
		port = firstPort + rand.IntN(ports)
		if err = free(port); err == nil {
			err = free(port + busOffset)
		}
		if err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port from %d on: %w", firstPort, err)
}

func free(port int) error {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	return l.Close()
}
