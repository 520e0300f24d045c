package main

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// diff is which lines of the working tree are not those of a revision.
type diff struct {
	lines map[string][]span // by the file's path
}

// span is the lines from first to last.
type span struct{ first, last int }

// diffSince asks git. Files that it does not know yet have changed as a whole.
func diffSince(ctx context.Context, revision string) (*diff, error) {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", args...).Output()
		if failed, ok := err.(*exec.ExitError); ok { //nolint:errorlint // as Output returns it
			err = fmt.Errorf("git %s: %w: %s", args[0], err, failed.Stderr)
		}
		return string(out), err
	}
	text, err := git("diff", "--merge-base", "--unified=0", "--no-color", "--no-ext-diff", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/", revision, "--", "*.go", "*.lua")
	if err != nil {
		return nil, err
	}
	d := readDiff(text)
	unknown, err := git("ls-files", "--others", "--exclude-standard", "--", "*.go", "*.lua")
	for path := range strings.FieldsSeq(unknown) {
		d.lines[path] = []span{{1, math.MaxInt}}
	}
	return d, err
}

// hunk matches the head of a part of a diff: the first line that is new, and how many there are.
var hunk = regexp.MustCompile(`^@@ -\S+ \+(\d+)(?:,(\d+))? @@`)

// readDiff reads what git diff --unified=0 writes.
func readDiff(text string) *diff {
	d := &diff{map[string][]span{}}
	path := ""
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
			path = strings.TrimSpace(name)
		}
		m := hunk.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		first, _ := strconv.Atoi(m[1])
		count := 1
		if m[2] != "" {
			count, _ = strconv.Atoi(m[2])
		}
		d.lines[path] = append(d.lines[path], span{first, first + count - 1})
	}
	return d
}

// has reports whether a line of a file has changed.
func (d *diff) has(path string, line int) bool {
	for _, s := range d.lines[path] {
		if s.first <= line && line <= s.last {
			return true
		}
	}
	return false
}
