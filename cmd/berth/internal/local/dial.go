package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// startTimeout bounds the start of a store, including the end of its predecessor.
const startTimeout = 30 * time.Second

// Store is this user's store, running or not.
type Store struct {
	Dir string
	// Command returns the command that serves the store: this program's own
	// file with the arguments that make it call Serve.
	Command func() *exec.Cmd
}

// Dial connects to the store, and starts one if there is none. It has the signature of a
// Redis client's Dialer; the address is not used.
//
// Every connection can start a store, not only the first one of a program: when the store
// was killed, its clients must learn from the next one that their leases are lost, instead
// of trusting them until they expire.
func (s *Store) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if conn, err := reach(ctx, s.socket()); err == nil {
		return conn, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := s.startAndConnect(ctx)
	if err != nil {
		return nil, fmt.Errorf("local store: %w", err)
	}
	return conn, nil
}

// Check makes the store's directory, or tells why the existing one cannot be used.
func (s *Store) Check() error {
	if err := prepareDir(s.Dir); err != nil {
		return fmt.Errorf("local store: %w", err)
	}
	return nil
}

func (s *Store) socket() string { return filepath.Join(s.Dir, socketName) }

func (s *Store) startAndConnect(ctx context.Context) (net.Conn, error) {
	l, err := lock(ctx, s.Dir, startLockName)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	for {
		// The process that had the lock before has started the store.
		conn, err := reach(ctx, s.socket())
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		// Once more, if it has ended again meanwhile because it was idle.
		if err := s.start(ctx); err != nil {
			return nil, err
		}
	}
}

// start starts a store and returns when it listens.
func (s *Store) start(ctx context.Context) error {
	ready, report, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	defer report.Close()
	cmd := s.Command()
	cmd.Dir = "/" // keep no file system busy
	cmd.ExtraFiles = []*os.File{report}
	// With a session of its own, the store does not get the signals of our terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // no zombie, should it end before us
	report.Close()
	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	msg, err := io.ReadAll(ready)
	switch {
	case err != nil:
		return fmt.Errorf("it did not start in time: %w", err)
	case len(msg) == 0:
		return fmt.Errorf("it ended while it started; see %s", filepath.Join(s.Dir, logName))
	case string(msg) != readyMessage:
		return errors.New(string(msg))
	}
	return nil
}

// reach returns a connection to a running store. The reply to a PING proves that the store
// was not about to end.
func reach(ctx context.Context, socket string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	if err := ping(conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}
	conn.SetDeadline(time.Time{})
	return conn, nil
}

func ping(conn net.Conn) error {
	if _, err := io.WriteString(conn, "*1\r\n$4\r\nPING\r\n"); err != nil {
		return err
	}
	const pong = "+PONG\r\n"
	reply := make([]byte, len(pong))
	if _, err := io.ReadFull(conn, reply); err != nil {
		return err
	}
	if string(reply) != pong {
		return errors.New("something else answers there")
	}
	return nil
}
