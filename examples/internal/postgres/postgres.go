// Package postgres starts a PostgreSQL for the examples. It uses no server and no
// configuration of the machine: everything is in a temporary directory, and it listens
// only on a unix socket in there.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-go/berth/internal/child"
)

// timeout bounds the start and the end of a server.
const timeout = 30 * time.Second

// ErrMissing says that there is no PostgreSQL on this machine.
var ErrMissing = errors.New("PostgreSQL's initdb is neither on PATH nor under /usr/lib/postgresql: " +
	"install it with `apt-get install postgresql` (Debian, Ubuntu) or `brew install postgresql` (macOS)")

// Server is a PostgreSQL that belongs to this process.
type Server struct {
	dir      string
	bin      string
	postgres *child.Process // nil: not started
}

// Start makes a database cluster and runs a server on it.
func Start(ctx context.Context) (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin}
	// A short path, because a socket's path has at most about 100 bytes.
	if s.dir, err = os.MkdirTemp("/tmp", "berthpg"); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// DSN returns the connection string. Further settings can be appended to it.
func (s *Server) DSN() string { return "host=" + s.dir + " user=postgres database=postgres" }

// Close ends the server and deletes all that it stored.
func (s *Server) Close() {
	if s.postgres != nil {
		_ = s.postgres.Cmd.Process.Signal(os.Interrupt) // PostgreSQL's "fast" shutdown
		select {
		case <-s.postgres.Done():
		case <-time.After(timeout):
			s.postgres.Kill()
		}
	}
	_ = os.RemoveAll(s.dir)
}

// find returns the directory of PostgreSQL's programs. Debian keeps them off
// PATH, one directory for each version.
func find() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is valid
	if len(found) == 0 {
		return "", ErrMissing
	}
	return filepath.Dir(slices.Max(found)), nil
}

func (s *Server) start(ctx context.Context) error {
	attr, err := s.unprivileged()
	if err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	// Every user who may enter the directory is the superuser; only this user may.
	initdb := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), "-D", data, "-U", "postgres",
		"--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
	initdb.SysProcAttr, initdb.Dir = attr, s.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), "-D", data, "-k", s.dir, "-c", "listen_addresses=",
		"-c", "fsync=off", "-c", "max_connections=200", "-c", "max_parallel_workers_per_gather=0", "-c", "jit=off")
	cmd.SysProcAttr, cmd.Dir = attr, s.dir
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	if s.postgres, err = child.Start(cmd); err != nil {
		s.postgres = nil
		return err
	}
	return s.waitReady(ctx)
}

// unprivileged returns the user to run PostgreSQL as, because it refuses to run as root.
func (s *Server) unprivileged() (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{}
	if os.Geteuid() != 0 {
		return attr, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and the user to run it as is missing: %w", err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr, os.Chown(s.dir, int(uid), int(gid))
}

func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		conn, err := pgx.Connect(ctx, s.DSN())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.postgres.Done():
			return fmt.Errorf("PostgreSQL ended while it started; its log: %s", s.log())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL did not start: %w; its log: %s", err, s.log())
		case <-time.After(pause):
		}
	}
}

func (s *Server) log() []byte {
	text, _ := os.ReadFile(filepath.Join(s.dir, "log")) // only for a message
	return text[max(0, len(text)-2000):]
}
