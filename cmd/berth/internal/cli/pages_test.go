package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPagesShowCommandsThatAreThere: each call of berth that a page shows has a command and
// flags that there are, and as many arguments as it takes.
func TestPagesShowCommandsThatAreThere(t *testing.T) {
	t.Parallel()
	calls := regexp.MustCompile("(?m)(?:^ {4}(?:\\$ )?|`)(berth [^`|\\n]+)")
	seen := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range calls.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			args := fields(m[1])[1:]
			if len(args) == 0 || !regexp.MustCompile(`^[a-z]+$|^--`).MatchString(args[0]) {
				continue // a placeholder
			}
			seen++
			parses(t, page+": "+m[1], args, strings.HasPrefix(m[0], "    "))
		}
	}
	if seen < 100 {
		t.Errorf("found only %d calls: does this test still read pages?", seen)
	}
}

// parses has the flags parsed of the command that args name; whole tells that all arguments are
// there, too.
func parses(t *testing.T, what string, args []string, whole bool) {
	t.Helper()
	root := Root()
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(args)
	if err != nil || cmd == root && !strings.HasPrefix(args[0], "--") {
		t.Errorf("%s: no such command: %v", what, err)
		return
	}
	cmd.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if whole && cmd != root {
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// fields splits a call as a shell does, up to what is not its own.
func fields(call string) (all []string) {
	call, _, _ = strings.Cut(call, " # ")
	for _, w := range regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(call, -1) {
		if strings.ContainsAny(w[:1], "|&;>#…[") {
			break
		}
		all = append(all, strings.Trim(w, `'"`))
	}
	return all
}

// pages are those of the repository.
func pages(t *testing.T) (all []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "*/*.md", "docs/*/*.md", "examples/*/*.md", "dev/*/*.md"} {
		found, err := filepath.Glob(filepath.Join("../../../..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		all = append(all, found...)
	}
	return all
}
