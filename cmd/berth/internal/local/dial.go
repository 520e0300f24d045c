package local

import (
	"bufio"
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

	"github.com/berth-go/berth/cmd/berth/internal/private"
)

// pause is how long a store that is about to end, or that more clients want to connect to
// than its socket can queue, is left alone.
const pause = 10 * time.Millisecond

// Store is this user's store, running or not.
type Store struct {
	Dir string
	// Command returns the command that serves the store: this program's own
	// file with the arguments that make it call Serve.
	Command func() *exec.Cmd
}

// Dial connects to the store, and starts one if there is none. It has the signature of a
// Redis client's Dialer; the address is not used. It waits for as long as ctx and the store's
// process live: a store that does not answer has not had the time yet.
//
// Every connection can start a store, not only the first one of a program: when the store
// was killed, its clients must learn from the next one that their leases are lost, instead
// of trusting them until they expire.
func (s *Store) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	conn, err := reach(ctx, s.socket())
	if err != nil {
		conn, err = s.startAndConnect(ctx)
	}
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return nil, fmt.Errorf("local store: %w", err)
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
		lives, err := private.Locked(filepath.Join(s.Dir, storeLockName))
		switch {
		case err != nil:
			return nil, err
		case lives:
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		default:
			// Once more, if it has ended again meanwhile because it was idle.
			if err := s.start(ctx); err != nil {
				return nil, err
			}
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
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	answer, err := ask(ctx, conn, "PING")
	if err == nil && answer != "+PONG\r\n" {
		err = errors.New("something else answers there")
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}
	return conn, nil
}

// ask sends a command without arguments and returns the first line of the answer, for which it
// waits until ctx ends.
func ask(ctx context.Context, conn net.Conn, command string) (answer string, err error) {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	_, err = fmt.Fprintf(conn, "*1\r\n$%d\r\n%s\r\n", len(command), command)
	if err == nil {
		answer, err = bufio.NewReader(conn).ReadString('\n') // nothing follows that could be lost
	}
	if !stop() { // the deadline may still come
		return "", context.Cause(ctx)
	}
	return answer, err
}
