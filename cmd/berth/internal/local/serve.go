package local

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/cmd/berth/internal/private"
)

const (
	// readyFD is the descriptor on which a store that Store.Dial has started reports that it
	// listens, or why it does not.
	readyFD      = 3
	readyMessage = "ready"
	// mostEnding is how long a store waits for the end of the one before it.
	mostEnding = 30 * time.Second
)

// Serve runs the store's process: it serves dir until ctx ends or the store has been idle for
// that long.
func Serve(ctx context.Context, dir string, idle time.Duration) error {
	closeInherited()
	report := os.NewFile(readyFD, "ready")
	server, held, err := open(ctx, dir)
	message := readyMessage
	if err != nil {
		message = err.Error()
	}
	_, _ = io.WriteString(report, message)
	report.Close()
	if err != nil {
		return err
	}
	defer held.Close() // the last: a successor must not listen before we have ended
	defer server.Close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		// The next command will start another store, and two would each grant the whole limit.
		server.socket.Watch(ctx)
	}()
	server.waitIdle(ctx, idle)
	return nil
}

// closeInherited closes the descriptors that this process has inherited. The store outlives
// the process that started it: a file locked there would stay locked, and the reader of a
// pipe would wait for its end. Descriptors that this process itself has opened are marked
// close-on-exec, which tells the two apart.
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

func open(ctx context.Context, dir string) (server *Server, held *os.File, err error) {
	if err := prepareDir(dir); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, mostEnding)
	defer cancel()
	l, err := lock(ctx, dir, storeLockName)
	if err != nil {
		return nil, nil, err
	}
	// We have the lock, so an existing socket is a leftover.
	socket := filepath.Join(dir, socketName)
	if err = os.Remove(socket); err == nil || errors.Is(err, fs.ErrNotExist) {
		err = cmp.Or(redirectOutput(filepath.Join(dir, logName)), private.NotePID(l))
	}
	if err == nil {
		server, err = Listen(socket)
	}
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	return server, l, nil
}

// redirectOutput sends the process's standard error, for example a panic, to a file, because
// the terminal from which it was started belongs to another command.
func redirectOutput(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Dup2(int(f.Fd()), 2)
}
