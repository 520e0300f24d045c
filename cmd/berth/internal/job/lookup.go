package job

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// defaultPath is used when PATH is not set at all, as env and shells do.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// Lookup finds the program for a command as shells do, PATH included, and
// returns its path. The errors exit with 127 when there is no such program and
// with 126 when there is one that cannot be executed.
func Lookup(name string) (string, error) {
	if strings.Contains(name, "/") {
		path, err := exec.LookPath(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", exit.Errorf(exit.NotFound, "%s: no such file", name)
		case err != nil:
			return "", exit.Errorf(exit.NotExecutable, "%s: %w", name, reason(err))
		}
		return path, nil
	}
	dirs, set := os.LookupEnv("PATH")
	if !set {
		dirs = defaultPath
	}
	found := false
	for _, dir := range filepath.SplitList(dirs) {
		path := cmp.Or(dir, ".") + "/" + name
		if _, err := exec.LookPath(path); err == nil {
			return path, nil
		}
		info, err := os.Stat(path)
		found = found || err == nil && !info.IsDir()
	}
	if found {
		return "", exit.Errorf(exit.NotExecutable, "%s: %w", name, fs.ErrPermission)
	}
	return "", exit.Errorf(exit.NotFound, "%s: command not found%s", name, meant(name))
}

// meant tells what to do about a name that no program has, but a shell would understand.
func meant(name string) string {
	switch {
	case strings.ContainsAny(name, " \t|&;<>()$`"):
		return ": give its words one by one, or run a shell: sh -c '" + name + "'"
	case strings.Contains(name, "="):
		return ": set variables by env: env " + name + " COMMAND"
	case slices.Contains(builtins, name):
		return ": it is a part of shells: sh -c '" + name + " ...'"
	}
	return ""
}

// builtins are commands that only shells have.
var builtins = []string{"cd", "export", "source", ".", "alias", "set", "unset", "eval", "exec", "ulimit", "umask", "if", "for", "while"}

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
