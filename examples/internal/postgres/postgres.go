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
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/berth-go/berth/internal/child"
)

// timeout bounds the start and the end of a server.
const timeout = 30 * time.Second

// Server is a PostgreSQL that belongs to this process, or one that does not.
type Server struct {
	DSN     string // the connection string; further settings can be appended to it
	dir     string // "": not ours
	process *child.Process
}

// Open returns the server at dsn, or starts one with a database of its own if dsn is
// empty, with further settings such as "max_connections=20". Close it.
func Open(ctx context.Context, dsn string, settings ...string) (*Server, error) {
	if dsn != "" {
		return &Server{DSN: dsn}, nil
	}
	// A short path, because a socket's path has at most about 100 bytes.
	dir, err := os.MkdirTemp("/tmp", "berthpg")
	if err != nil {
		return nil, err
	}
	s := &Server{DSN: "host=" + dir + " user=postgres database=postgres", dir: dir}
	if err := s.start(ctx, settings); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends a server that Open started, and deletes all that it stored.
func (s *Server) Close() {
	if s.process != nil {
		_ = s.process.Cmd.Process.Signal(os.Interrupt) // PostgreSQL's "fast" shutdown
		defer time.AfterFunc(timeout, s.process.Kill).Stop()
		_ = s.process.Wait() // its exit status does not matter
	}
	_ = os.RemoveAll(s.dir) // nothing for ""
}

// start makes a database cluster and runs a server on it.
func (s *Server) start(ctx context.Context, settings []string) error {
	bin, err := find()
	if err != nil {
		return err
	}
	attr, err := unprivileged(s.dir)
	if err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	// Every user who may enter the directory is the superuser; only this user may.
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres",
		"--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
	initdb.SysProcAttr, initdb.Dir = attr, s.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", s.dir, "-c", "listen_addresses=",
		"-c", "fsync=off", "-c", "max_connections=200", "-c", "max_parallel_workers_per_gather=0", "-c", "jit=off")
	for _, setting := range settings {
		cmd.Args = append(cmd.Args, "-c", setting)
	}
	cmd.SysProcAttr, cmd.Dir = attr, s.dir
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	process, err := child.Start(cmd)
	if err != nil {
		return err
	}
	s.process = process
	if err := s.waitReady(ctx); err != nil {
		text, _ := os.ReadFile(log.Name()) // only for a message
		return fmt.Errorf("%w; its log: %s", err, text[max(0, len(text)-2000):])
	}
	return nil
}

// find returns the directory of PostgreSQL's programs. Debian keeps them off
// PATH, one directory for each version.
func find() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is valid
	if len(found) == 0 {
		return "", errors.New("PostgreSQL's initdb is neither on PATH nor under /usr/lib/postgresql: " +
			"install it with `apt-get install postgresql` (Debian, Ubuntu) or `brew install postgresql` (macOS)")
	}
	return filepath.Dir(slices.Max(found)), nil
}

// unprivileged returns the user to run PostgreSQL as, because it refuses to run as root,
// and gives dir to that user.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return &syscall.SysProcAttr{}, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and the user to run it as is missing: %w", err)
	}
	var id syscall.Credential
	if _, err := fmt.Sscan(account.Uid+" "+account.Gid, &id.Uid, &id.Gid); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &id}, os.Chown(dir, int(id.Uid), int(id.Gid))
}

// waitReady returns when the server answers, or fails if it ends or takes too long.
func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.DSN)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.process.Done():
			return errors.New("PostgreSQL ended while it started")
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL did not start: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
