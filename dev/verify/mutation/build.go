package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-go/berth/dev/verify/mutants"
)

// The environment of a test binary that has the changes in it.
const (
	envChange  = "BERTH_MUTATION"         // the number of the change to make; none: 0
	envReached = "BERTH_MUTATION_REACHED" // a file that lists which changes are reached
	envScript  = "BERTH_MUTATION_SCRIPT"  // a file whose text stands for the script
)

// switchSource is a file of the package that is changed.
const switchSource = `package %s

import (
	mutationFmt "fmt"
	mutationOS "os"
	mutationConv "strconv"
	mutationAtomic "sync/atomic"
)

var (
	mutationNumber, _  = mutationConv.Atoi(mutationOS.Getenv("` + envChange + `"))
	mutationReached, _ = mutationOS.OpenFile(mutationOS.Getenv("` + envReached + `"), mutationOS.O_APPEND|mutationOS.O_WRONLY, 0)
	mutationSeen       [%d]mutationAtomic.Bool
)

// mutated reports whether change n is to be made.
func mutated(n int) bool {
	if mutationReached != nil && !mutationSeen[n].Swap(true) {
		mutationFmt.Fprintln(mutationReached, n)
	}
	return n == mutationNumber
}

// mutationText is the text of an embedded file, or what is to stand for it.
func mutationText(embedded string) string {
	if raw, err := mutationOS.ReadFile(mutationOS.Getenv("` + envScript + `")); err == nil {
		return string(raw)
	}
	return embedded
}
`

// packageName and embedded match in a source.
var (
	packageName = regexp.MustCompile(`(?m)^package (\w+)`)
	embedded    = regexp.MustCompile(`(//go:embed \w+\.lua\nvar )(\w+) string`)
)

// failedAt matches the position of an error in a change.
var failedAt = regexp.MustCompile(`mutation(\d+)/change\.go:`)

// build compiles the tests into dir, with the first n changes of all that compile. It
// returns the changes, in which number i+1 is at index i.
func build(ctx context.Context, dir string, tests []string, all []*change, n int) ([]*change, error) {
	bad := map[*change]bool{}
	for {
		var chosen []*change
		for _, c := range all {
			if len(chosen) < n && !bad[c] {
				chosen = append(chosen, c)
			}
		}
		overlay, err := overlay(dir, chosen)
		if err != nil {
			return nil, err
		}
		out, err := compile(ctx, dir, overlay, tests)
		if err == nil {
			return chosen, nil
		}
		found := failedAt.FindAllSubmatch(out, -1)
		if len(found) == 0 {
			return nil, fmt.Errorf("go test -c: %w: %s", err, out)
		}
		for _, m := range found {
			i, _ := strconv.Atoi(string(m[1]))
			bad[chosen[i-1]] = true
		}
	}
}

// binary is where the compiled tests of a folder are.
func binary(dir, folder string) string {
	return filepath.Join(dir, strings.ReplaceAll(folder, "/", "_")+".test")
}

// compile compiles the tests of some folders into dir, and returns what the compiler says.
func compile(ctx context.Context, dir, overlay string, tests []string) (out []byte, err error) {
	for _, folder := range tests {
		args := []string{"test", "-c", "-vet=off", "-gcflags=-e", "-ldflags=-s -w", "-overlay", overlay, "-o", binary(dir, folder), folder}
		if out, err = exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			break
		}
	}
	return out, err
}

// overlay writes the files of a package with all its changes in them, and returns their list.
func overlay(dir string, chosen []*change) (string, error) {
	folder, err := filepath.Abs(filepath.Dir(chosen[0].file))
	if err != nil {
		return "", err
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return "", err
	}
	changed := map[string]string{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if bytes.HasSuffix([]byte(path), []byte("_test.go")) {
			continue
		}
		name := packageName.FindSubmatch(raw)[1]
		changed[filepath.Join(folder, "mutation_switch.go")] = fmt.Sprintf(switchSource, name, len(chosen)+1)
		text := switched(path, string(raw), chosen)
		text = embedded.ReplaceAllString(text, "${1}${2}Embedded string\nvar $2 = mutationText(${2}Embedded)")
		if text != string(raw) {
			changed[path] = text
		}
	}
	return mutants.Overlay(dir, changed)
}

// switched is the source of a file with its changes in it.
func switched(path, source string, chosen []*change) string {
	numbers := map[*change]int{}
	var mine []*change
	for i, c := range chosen {
		if filepath.Base(c.file) == filepath.Base(path) {
			numbers[c] = i + 1
			mine = append(mine, c)
		}
	}
	// What is around others comes before them.
	slices.SortStableFunc(mine, func(a, b *change) int {
		if a.switched.from != b.switched.from {
			return a.switched.from - b.switched.from
		}
		return b.switched.to - a.switched.to
	})
	return render(source, 0, len(source), mine, numbers)
}

// render is a part of a source with the changes in it, of which each is in the part.
func render(source string, from, to int, changes []*change, numbers map[*change]int) string {
	var b strings.Builder
	for len(changes) > 0 {
		c := changes[0]
		inside := 1
		for inside < len(changes) && changes[inside].switched.from < c.switched.to {
			inside++
		}
		b.WriteString(source[from:c.switched.from])
		same := render(source, c.switched.from, c.switched.to, changes[1:inside], numbers)
		b.WriteString(c.choice(source, same, numbers[c]))
		from, changes = c.switched.to, changes[inside:]
	}
	return b.String() + source[from:to]
}

// choice is the text of the place of a change: same, unless change n is to be made.
// Comments tell the compiler what to say of an error's place.
func (c *change) choice(source, same string, n int) string {
	p := c.switched
	other := source[p.from:c.from] + c.new + source[c.to:p.to]
	back := fmt.Sprintf("/*line %s:%d:%d*/", filepath.Base(c.file), p.at.Line, p.at.Column)
	in := fmt.Sprintf("/*line mutation%d/change.go:1:1*/", n)
	switch p.kind {
	case condition:
		return fmt.Sprintf("(mutated(%d) && (%s%s%s) || !mutated(%d) && (%s))", n, in, other, back, n, same)
	case statement:
		return fmt.Sprintf("if mutated(%d) { %s%s%s } else { %s }", n, in, other, back, same)
	case definition:
		return fmt.Sprintf("%s; if mutated(%d) { %s%s%s }", same, n, in, strings.Replace(other, ":=", "=", 1), back)
	}
	return same
}
