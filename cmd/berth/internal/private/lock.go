package private

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a busy lock is tried again.
const lockPoll = 10 * time.Millisecond

// ErrLocked: another process holds the lock.
var ErrLocked = errors.New("it is held by another process")

// Lock waits for the lock of a file, which it makes, until ctx ends, and tries once in any
// case. The lock is released when the file is closed or the process ends in any way.
func Lock(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock %s: %w: %w", path, ErrLocked, context.Cause(ctx))
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
