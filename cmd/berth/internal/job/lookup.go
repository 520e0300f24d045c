package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// defaultPath is used when PATH is not set at all, as env and shells do.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// Lookup finds the program for a command as shells do, PATH included, and
// returns its path. The errors exit with 127 when there is no such program and
// with 126 when there is one that cannot be executed.
func Lookup(name string) (string, error) {
	path, err := lookPath(name)
	switch {
	case err == nil || errors.Is(err, exec.ErrDot):
		// The user has put a dot into PATH; shells follow it, too.
		return path, nil
	case strings.Contains(name, "/"):
		if errors.Is(err, fs.ErrNotExist) {
			return "", exit.Errorf(exit.NotFound, "%s: no such file", name)
		}
		return "", exit.Errorf(exit.NotExecutable, "%s: %w", name, reason(err))
	case onPath(name):
		return "", exit.Errorf(exit.NotExecutable, "%s: %w", name, fs.ErrPermission)
	default:
		return "", exit.Errorf(exit.NotFound, "%s: command not found", name)
	}
}

func lookPath(name string) (string, error) {
	if _, set := os.LookupEnv("PATH"); set || strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(defaultPath) {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// onPath reports whether PATH has a file of that name, which then is not executable.
func onPath(name string) bool {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return name != ""
		}
	}
	return false
}

// startError gives a failed start its exit code: the program was found before, so it is not
// unknown, unless it was removed meanwhile.
func startError(name, path string, err error) error {
	if _, statErr := os.Stat(path); errors.Is(statErr, fs.ErrNotExist) {
		return exit.Errorf(exit.NotFound, "%s: it has gone since it was looked up", name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return exit.Errorf(exit.NotExecutable, "%s: its interpreter does not exist", name)
	}
	return exit.Errorf(exit.NotExecutable, "%s: %w", name, reason(err))
}

// reason returns the innermost error, without the words that os adds.
func reason(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return fmt.Errorf("cannot be executed: %w", err)
}
