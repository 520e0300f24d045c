// Command mutation tests the tests of the core. It makes small changes to its source,
// one at a time, and runs the tests nearest to each:
//
//	go run ./dev/verify/mutation                  60 changes of each package, 100 of the script
//	go run ./dev/verify/mutation -sample 0        every change there is
//	go run ./dev/verify/mutation -only claim      areas whose name contains that
//	go run ./dev/verify/mutation -show            the changes, without running them
//
// Tests are compiled once, with all changes of an area in them, and a variable of the environment
// chooses one; the files stay as they are. A change that does not compile is replaced by another.
// Without any change, each test runs alone: it must pass, and tells which changes it reaches. Only
// those tests run with a change, the quickest first, until one fails or takes far too long. Each
// change that no test noticed is printed in the end. Ctrl-C ends the run.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// area is a part of the core, and the folders whose tests must notice its changes: the nearest
// first, the others for what these have not noticed.
type area struct {
	name, files string
	sample      int
	tests       []string
}

// areas lists what is changed. The tests of the pool and of the promises run through the session,
// too.
var areas = []area{
	{"claim", "internal/claim/*.go", 60, []string{"./internal/claim"}},
	{"commit", "internal/commit/*.go", 60, []string{"./internal/commit"}},
	{"session", "internal/session/*.go", 60, []string{"./internal/session", "./berthpool", "./tests/promise"}},
	{"keeper", "internal/keeper/*.go", 15, []string{"./internal/keeper"}},
	{"clock", "internal/clock/server.go", 15, []string{"./internal/clock"}},
	{"inbox", "internal/inbox/*.go", 60, []string{"./internal/inbox"}},
	{"protocol", "internal/protocol/*.go", 60, []string{"./internal/protocol"}},
	{"script", "internal/protocol/*.lua", 100, []string{"./internal/protocol"}},
}

// kept matches files that are not changed: tests, and what a Linux build has not.
var kept = regexp.MustCompile(`(_test|doc|_other)\.go$`)

// hunt is a run of the command.
type hunt struct {
	sample        int
	seed          uint64
	show, verbose bool
}

func main() {
	var h hunt
	flag.IntVar(&h.sample, "sample", -1, "changes of each area; 0: all; negative: as listed in the source")
	flag.Uint64Var(&h.seed, "seed", 1, "chooses the sample")
	flag.BoolVar(&h.show, "show", false, "print the changes without running them")
	flag.BoolVar(&h.verbose, "v", false, "print what noticed each change, too")
	only := flag.String("only", "", "areas whose name contains this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, a := range areas {
		if !strings.Contains(a.name, *only) {
			continue
		}
		if err := h.in(ctx, a); err != nil {
			fmt.Fprintln(os.Stderr, "mutation:", err)
			os.Exit(1)
		}
	}
}

// in tries a sample of the changes of an area and prints those that no test noticed.
func (h *hunt) in(ctx context.Context, a area) error {
	all, err := changes(a.files)
	if err != nil {
		return err
	}
	rand.New(rand.NewPCG(h.seed, 0)).Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	size := a.sample
	if h.sample >= 0 {
		size = h.sample
	}
	if size == 0 {
		size = len(all)
	}
	if h.show {
		for _, c := range all[:min(size, len(all))] {
			fmt.Println(c)
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "berth-mutation")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	chosen, err := build(ctx, dir, a.tests, all, size)
	if err != nil {
		return err
	}
	left := numbers(len(chosen))
	for _, folder := range a.tests {
		if left, err = h.survivors(ctx, dir, folder, chosen, left); err != nil {
			return err
		}
	}
	for _, n := range left {
		fmt.Println("survived", chosen[n-1])
	}
	fmt.Printf("%s: %d of %d noticed, of %d that there are\n", a.name, len(chosen)-len(left), len(chosen), len(all))
	return nil
}

// numbers are 1 to n.
func numbers(n int) (all []int) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

// survivors returns which of some changes the tests of a folder do not notice.
func (h *hunt) survivors(ctx context.Context, dir, folder string, chosen []*change, of []int) (left []int, err error) {
	if len(of) == 0 {
		return nil, nil
	}
	s, err := newSuite(ctx, dir, folder)
	if err != nil {
		return nil, err
	}
	for k, n := range of {
		fmt.Fprintf(os.Stderr, "\r%s: change %d of %d, %d not noticed ", folder, k+1, len(of), len(left))
		by, err := s.try(ctx, n, chosen[n-1])
		if err != nil {
			return nil, err
		}
		if by == "" {
			left = append(left, n)
		}
		if h.verbose {
			fmt.Println(cmp.Or(by, "nothing in "+folder), "noticed", chosen[n-1])
		}
	}
	fmt.Fprintln(os.Stderr)
	return left, nil
}

// changes returns every change that can be made to some files.
func changes(files string) ([]*change, error) {
	paths, err := filepath.Glob(files)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s is not here: run this in the directory of the repository", files)
	}
	var all []*change
	for _, path := range paths {
		file := filepath.ToSlash(path)
		if kept.MatchString(file) {
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		of := ofGo
		if filepath.Ext(path) == ".lua" {
			of = ofLua
		}
		found, err := of(file, string(raw))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}
