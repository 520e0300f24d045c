package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	socketName    = "sock"
	startLockName = "start.lock"
	storeLockName = "store.lock"
	logName       = "store.log"

	// maxSocketPath is the shortest of what the systems allow in a sockaddr_un,
	// which is macOS's.
	maxSocketPath = 103
	// lockPoll is how often a busy lock is tried again.
	lockPoll = 10 * time.Millisecond
)

// DefaultDir is where this user's store lives: $XDG_RUNTIME_DIR/berth, or a
// directory with the user's id in the one for temporary files.
func DefaultDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "berth")
	}
	return filepath.Join(os.TempDir(), "berth-"+strconv.Itoa(os.Geteuid()))
}

// prepareDir makes dir, or checks that what is there can be trusted: a
// directory of this user's that nobody else can enter. Others can put anything
// they like into a shared temporary directory under the name we are about to
// use, a link included; with that, they would see and grant our permits.
func prepareDir(dir string) error {
	if len(filepath.Join(dir, socketName)) > maxSocketPath {
		return fmt.Errorf("%s is too long for a unix socket: set XDG_RUNTIME_DIR to a shorter directory", dir)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory (but %s): remove it", dir, info.Mode().Type())
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user: set XDG_RUNTIME_DIR to a directory of yours", dir)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%s can be entered by others (mode %04o): chmod 700 it, or remove it", dir, perm)
	}
	return nil
}

// lock takes the named lock of dir and waits for it until ctx ends. Closing
// the file, or the end of the process whatever its kind, gives it back.
func lock(ctx context.Context, dir, name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
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
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("%s is held by another process: %w", f.Name(), context.Cause(ctx))
		}
	}
}
