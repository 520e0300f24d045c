package private

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// in is a directory that somebody has chosen.
func in(dir string) Dir { return Dir{Path: dir, Socket: "sock", Setting: "SOCKET_DIR"} }

// A directory that somebody else has made, can enter, or can replace would let
// them see and grant this user's permits. Each refusal says what is wrong.
func TestPrepareDirRefuses(t *testing.T) {
	type test struct {
		prepare func(t *testing.T, base string) (dir string)
		says    string
	}
	tests := map[string]test{
		"link": {func(t *testing.T, base string) string {
			return link(t, mkdir(t, base, "target", 0o700), base)
		}, "not a directory"},
		"file": {func(t *testing.T, base string) string {
			path := filepath.Join(base, "file")
			return must(t, path, os.WriteFile(path, nil, 0o600))
		}, "not a directory"},
		"for the group": {func(t *testing.T, base string) string { return mkdir(t, base, "d", 0o750) }, "mode 0750"},
		"for everybody": {func(t *testing.T, base string) string { return mkdir(t, base, "d", 0o777) }, "mode 0777"},
		"in a directory for everybody": {func(t *testing.T, base string) string {
			return filepath.Join(mkdir(t, base, "p", 0o777), "d")
		}, "others can write to"},
		"in a directory for the group": {func(t *testing.T, base string) string {
			return filepath.Join(mkdir(t, base, "p", 0o770), "d")
		}, "others can write to"},
		"below a directory for everybody": {func(t *testing.T, base string) string {
			return filepath.Join(mkdir(t, mkdir(t, base, "p", 0o777), "q", 0o700), "d")
		}, "others can write to"},
		"behind a link into a directory for everybody": {func(t *testing.T, base string) string {
			return filepath.Join(link(t, mkdir(t, mkdir(t, base, "p", 0o777), "q", 0o700), base), "d")
		}, "others can write to"},
		"nowhere": {func(_ *testing.T, base string) string { return filepath.Join(base, "p", "d") }, "no such file"},
		"too long": {func(_ *testing.T, base string) string {
			return filepath.Join(base, strings.Repeat("x", 100))
		}, "too long"},
	}
	if os.Geteuid() == 0 { // nobody else can make another user's directory
		give := func(t *testing.T, dir string) string { return must(t, dir, os.Chown(dir, 12345, 12345)) }
		tests["another user's"] = test{func(t *testing.T, base string) string {
			return give(t, mkdir(t, base, "d", 0o700))
		}, "belongs to user 12345"}
		tests["in another user's directory"] = test{func(t *testing.T, base string) string {
			return filepath.Join(give(t, mkdir(t, base, "p", 0o755)), "d")
		}, "belongs to user 12345"}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := tt.prepare(t, own(t))
			err := in(dir).Prepare()
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want an error with %q", err, tt.says)
			} else if strings.Contains(err.Error(), "remove it") || strings.Contains(err.Error(), "chmod") {
				t.Errorf("it may be anything, even /tmp: %v", err)
			}
			t.Log(err)
		})
	}
}

func TestPrepareDirAccepts(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, base string) (dir string){
		"new":   func(_ *testing.T, base string) string { return filepath.Join(base, "d") },
		"there": func(t *testing.T, base string) string { return mkdir(t, base, "d", 0o700) },
		"in a sticky directory": func(t *testing.T, base string) string {
			return filepath.Join(mkdir(t, base, "p", 0o777|os.ModeSticky), "d")
		},
		"behind a good link": func(t *testing.T, base string) string {
			return filepath.Join(link(t, mkdir(t, base, "p", 0o755), base), "d")
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := in(prepare(t, own(t))).Prepare(); err != nil {
				t.Error(err)
			}
		})
	}
}

// own returns a fresh directory that only this user can enter.
func own(t *testing.T) string {
	t.Helper()
	base, err := os.MkdirTemp("", "berth") // t.TempDir can be too long for a socket
	t.Cleanup(func() { os.RemoveAll(base) })
	return must(t, base, err)
}

func must(t *testing.T, path string, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func mkdir(t *testing.T, base, name string, mode os.FileMode) string {
	t.Helper()
	dir := filepath.Join(base, name)
	return must(t, dir, errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)))
}

func link(t *testing.T, target, base string) string {
	t.Helper()
	path := filepath.Join(base, "link")
	return must(t, path, os.Symlink(target, path))
}

// TestDefaultDirectoryIsMended: nothing of somebody's is where nobody chose to put it.
func TestDefaultDirectoryIsMended(t *testing.T) {
	d := in(mkdir(t, own(t), "d", 0o750))
	d.Default = true
	if err := d.Prepare(); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("got %v, want the advice to mend it", err)
	}
}

// TestLockIsHeldByOne, until the file is closed.
func TestLockIsHeldByOne(t *testing.T) {
	path := filepath.Join(own(t), "lock")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	first, err := Lock(ended, path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(ended, path); !errors.Is(err, ErrLocked) || !errors.Is(err, context.Canceled) {
		t.Errorf("a second one: %v", err)
	}
	first.Close()
	second, err := Lock(t.Context(), path) // the one that gave up may have it for a moment
	if err != nil {
		t.Fatal(err)
	}
	second.Close()
}

// TestLockWaitsItsTurn: a lock that is held is had when it is free, and whether it is held can
// be asked without taking it.
func TestLockWaitsItsTurn(t *testing.T) {
	path := filepath.Join(own(t), "lock")
	held := func() bool {
		t.Helper()
		is, err := Locked(path)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if held() {
		t.Error("a lock that does not exist is held")
	}
	first, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan *os.File)
	go func() {
		f, err := Lock(t.Context(), path)
		if err != nil {
			t.Error(err)
		}
		second <- f
	}()
	select {
	case <-second:
		t.Fatal("two have it")
	default:
	}
	if !held() {
		t.Error("a lock that is held is free")
	}
	first.Close()
	f := <-second
	if !held() {
		t.Error("who waited does not have it")
	}
	f.Close()
	if held() {
		t.Error("nobody has it, and it is held")
	}
}
