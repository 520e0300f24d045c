package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readyFD is where a store that was started by Store.Dial reports that it
	// listens, or why it does not.
	readyFD      = 3
	readyMessage = "ready"
	// checkEvery is how often a store looks whether its socket is still there.
	checkEvery = time.Minute
)

// Serve is the store's process: it serves dir until ctx ends or the store has
// been idle for that long.
func Serve(ctx context.Context, dir string, idle time.Duration) error {
	closeInherited()
	report := os.NewFile(readyFD, "ready")
	server, unlock, err := open(ctx, dir)
	if err != nil {
		_, _ = io.WriteString(report, err.Error())
		report.Close()
		return err
	}
	// The lock goes last: a successor must not listen before we have ended.
	defer func() { _ = unlock() }()
	defer server.Close()
	_, _ = io.WriteString(report, readyMessage)
	report.Close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		watchSocket(ctx, filepath.Join(dir, socketName))
	}()
	server.waitIdle(ctx, idle)
	return nil
}

// closeInherited closes what is open because whoever started us had it open. The
// store outlives them: a file that they have locked would stay locked, and the
// reader of a pipe would wait for its end. What this process has opened itself
// is marked to be closed on exec, which tells the two apart.
func closeInherited() {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= readyFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

func open(ctx context.Context, dir string) (server *Server, unlock func() error, err error) {
	if err := prepareDir(dir); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	l, err := lock(ctx, dir, storeLockName)
	if err != nil {
		return nil, nil, err
	}
	// We have the lock, so a socket that is still there belongs to nobody.
	socket := filepath.Join(dir, socketName)
	if err = os.Remove(socket); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = redirectOutput(filepath.Join(dir, logName))
	}
	if err == nil {
		err = notePID(l)
	}
	if err == nil {
		server, err = Listen(socket)
	}
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	return server, l.Close, nil
}

// notePID writes into the lock whose it is, for people.
func notePID(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := fmt.Fprintln(lock, os.Getpid())
	return err
}

// redirectOutput sends what the process says on its standard error, a panic
// at worst, to a file: the terminal it was started from is somebody else's.
func redirectOutput(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Dup2(int(f.Fd()), 2)
}

// watchSocket returns when the socket is no longer the one it was: something
// cleaned the directory up, nobody can reach this store any more, and the next
// command starts another. Two stores would each grant the whole limit.
func watchSocket(ctx context.Context, socket string) {
	first, err := os.Lstat(socket)
	if err != nil {
		return
	}
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			now, err := os.Lstat(socket)
			if err != nil || !os.SameFile(first, now) {
				return
			}
		}
	}
}
