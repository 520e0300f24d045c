package private

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked: another process holds the lock.
var ErrLocked = errors.New("it is held by another process")

// Lock waits for the lock of a file, which it makes, until ctx ends, and tries once in any
// case. Those who wait are served in turn, and cost nothing meanwhile. The lock is released when
// the file is closed or the process ends in any way.
func Lock(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return await(ctx, f)
	}
	return got(f, err)
}

// await waits for the lock of f. The system call cannot be ended: after ctx it goes on, and
// what it gets is given back.
func await(ctx context.Context, f *os.File) (*os.File, error) {
	locked := make(chan error, 1)
	go func() { locked <- flock(f, unix.LOCK_EX) }()
	select {
	case err := <-locked:
		return got(f, err)
	case <-ctx.Done():
		go func() {
			<-locked //nolint:errcheck // the lock or not: closing gives it back
			f.Close()
		}()
		return nil, fmt.Errorf("lock %s: %w: %w", f.Name(), ErrLocked, context.Cause(ctx))
	}
}

func got(f *os.File, err error) (*os.File, error) {
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// Locked reports whether a process has the lock of a file, which need not exist.
func Locked(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = flock(f, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// NotePID writes this process's number into a lock, for people.
func NotePID(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := fmt.Fprintln(lock, os.Getpid())
	return err
}
