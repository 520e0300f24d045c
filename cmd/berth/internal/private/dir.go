package private

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxSocketPath is the longest path that all systems allow in a sockaddr_un; macOS has the
// smallest bound.
const maxSocketPath = 103

// Fits reports whether a path is short enough for a unix socket on every system.
func Fits(socket string) bool { return len(socket) <= maxSocketPath }

// Dir is the directory of a socket that no other user may reach.
type Dir struct {
	Path    string
	Socket  string // the name of the socket in it
	Setting string // where another path can be set, for advice
	Default bool   // nobody chose the path
}

// Prepare makes the directory, or checks that the existing one can be trusted: it must belong
// to this user, and no other user may be able to enter or replace it. In a shared directory
// others can create anything under that name, even a link, and with that see and grant our
// permits.
func (d Dir) Prepare() error {
	if !Fits(filepath.Join(d.Path, d.Socket)) {
		return fmt.Errorf("%s is too long for a unix socket: set %s to a shorter path", d.Path, d.Setting)
	}
	if err := d.checkParents(d.Path); err != nil {
		return err
	}
	if err := os.Mkdir(d.Path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: set %s to a directory of yours", err, d.Setting)
	}
	info, err := os.Lstat(d.Path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory: %s", d.Path, d.another("remove it"))
	}
	if owner := ownerOf(info); owner != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d: set %s to a directory of yours", d.Path, owner, d.Setting)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%s can be entered by others (mode %04o): %s", d.Path, perm, d.another("chmod 700 it, or remove it"))
	}
	return nil
}

// another is the advice to use another directory, unless d is the one that nobody chose:
// then it is what mends it. What somebody chose by mistake may be anything, even /tmp.
func (d Dir) another(mend string) string {
	if d.Default {
		return mend
	}
	return fmt.Sprintf("set %s to a separate directory; it need not exist", d.Setting)
}

// checkParents refuses a path on which another user could replace the directory: each
// directory above it must belong to root or to this user, and if others can write to one, it
// must have the sticky bit.
func (d Dir) checkParents(path string) error {
	for at := filepath.Dir(path); ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return fmt.Errorf("%w: set %s to a directory of yours", err, d.Setting)
		}
		if owner := ownerOf(info); owner != 0 && owner != os.Geteuid() {
			return fmt.Errorf("%s belongs to user %d, who could replace %s: set %s to a directory of yours",
				at, owner, path, d.Setting)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := filepath.EvalSymlinks(at)
			if err != nil {
				return err
			}
			if err := d.checkParents(filepath.Join(target, d.Socket)); err != nil {
				return err
			}
		} else if info.Mode()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return fmt.Errorf("others can write to %s (mode %04o) and replace %s: set %s to another path",
				at, info.Mode().Perm(), path, d.Setting)
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
