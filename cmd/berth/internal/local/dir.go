package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/berth-go/berth/cmd/berth/internal/private"
)

const (
	socketName    = "sock"
	startLockName = "start.lock"
	storeLockName = "store.lock"
	logName       = "store.log"
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

// prepareDir makes dir, or checks that the existing one can be trusted.
func prepareDir(dir string) error {
	return private.Dir{Path: dir, Socket: socketName, Setting: DirEnv, Default: dir == DefaultDir()}.Prepare()
}

// TempSocket makes a directory, whose name begins with prefix, and returns it with the path of
// a socket in it. Where TMPDIR is too long for a socket, it is in /tmp.
func TempSocket(prefix string) (dir, socket string, err error) {
	parent := os.TempDir()
	if !private.Fits(filepath.Join(parent, prefix+"4294967295", socketName)) { // the longest that MkdirTemp makes
		parent = "/tmp"
	}
	dir, err = os.MkdirTemp(parent, prefix)
	return dir, filepath.Join(dir, socketName), err
}

// lock waits for the named lock of dir until ctx ends.
func lock(ctx context.Context, dir, name string) (*os.File, error) {
	return private.Lock(ctx, filepath.Join(dir, name))
}
