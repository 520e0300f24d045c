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

	// maxSocketPath is the longest path that all systems allow in a sockaddr_un; macOS has
	// the smallest bound.
	maxSocketPath = 103
	// lockPoll is how often a busy lock is tried again.
	lockPoll = 10 * time.Millisecond
)

// DirEnv is the environment variable with the store's directory.
const DirEnv = "BERTH_STORE_DIR"

// Dir returns the directory of this user's store: $BERTH_STORE_DIR, which must be an absolute
// path, or else DefaultDir.
func Dir() (string, error) {
	dir := os.Getenv(DirEnv)
	switch {
	case dir == "":
		return DefaultDir(), nil
	case !filepath.IsAbs(dir):
		return "", fmt.Errorf("$%s is %q: it must be an absolute path", DirEnv, dir)
	}
	return filepath.Clean(dir), nil
}

// DefaultDir depends only on the user's id, so that all processes of a user on a machine
// share one store. It does not depend on the environment, which cron, systemd and a login
// shell set differently, nor on /run/user/UID, which exists only while the user is logged
// in.
func DefaultDir() string { return dirOf(os.Geteuid()) }

func dirOf(uid int) string {
	if uid == 0 {
		if info, err := os.Stat("/run"); err == nil && info.IsDir() {
			return "/run/berth"
		}
	}
	return "/tmp/berth-" + strconv.Itoa(uid)
}

// prepareDir makes dir, or checks that the existing one can be trusted: it must belong to
// this user, and no other user may be able to enter or replace it. In a shared directory
// others can create anything under that name, even a link, and with that see and grant our
// permits.
func prepareDir(dir string) error {
	if len(filepath.Join(dir, socketName)) > maxSocketPath {
		return fmt.Errorf("%s is too long for a unix socket: set %s to a shorter path", dir, DirEnv)
	}
	if err := checkParents(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: set %s to a directory of yours", err, DirEnv)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory: %s", dir, other(dir, "remove it"))
	}
	if owner := ownerOf(info); owner != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d: set %s to a directory of yours", dir, owner, DirEnv)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%s can be entered by others (mode %04o): %s", dir, perm, other(dir, "chmod 700 it, or remove it"))
	}
	return nil
}

// other is the advice to use another directory, unless dir is the one that nobody chose:
// then it is what mends it. What somebody chose by mistake may be anything, even /tmp.
func other(dir, mend string) string {
	if dir == DefaultDir() {
		return mend
	}
	return fmt.Sprintf("set %s to a directory of its own; it need not exist", DirEnv)
}

// TempSocket makes a directory, whose name begins with prefix, and returns it with the path of
// a socket in it. Where TMPDIR is too long for a socket, it is in /tmp.
func TempSocket(prefix string) (dir, socket string, err error) {
	parent := os.TempDir()
	if len(filepath.Join(parent, prefix+"4294967295", socketName)) > maxSocketPath { // the longest that MkdirTemp makes
		parent = "/tmp"
	}
	dir, err = os.MkdirTemp(parent, prefix)
	return dir, filepath.Join(dir, socketName), err
}

// checkParents refuses a path on which another user could replace dir: each directory above
// it must belong to root or to this user, and if others can write to one, it must have the
// sticky bit.
func checkParents(dir string) error {
	for at := filepath.Dir(dir); ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return fmt.Errorf("%w: set %s to a directory of yours", err, DirEnv)
		}
		if owner := ownerOf(info); owner != 0 && owner != os.Geteuid() {
			return fmt.Errorf("%s belongs to user %d, who could replace %s: set %s to a directory of yours",
				at, owner, dir, DirEnv)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := filepath.EvalSymlinks(at)
			if err != nil {
				return err
			}
			if err := checkParents(filepath.Join(target, socketName)); err != nil {
				return err
			}
		} else if info.Mode()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("others can write to %s (mode %04o) and replace %s: set %s to another path",
				at, info.Mode().Perm(), dir, DirEnv)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// ownerOf returns the id of a file's owner, or -1 if it is unknown.
func ownerOf(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}

// lock waits for the named lock of dir until ctx ends. The lock is released when the file is
// closed or the process ends in any way.
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
