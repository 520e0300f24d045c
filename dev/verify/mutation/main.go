// Command mutation tests the tests. It makes small changes to the source of a package, one at a
// time, and runs the tests nearest to each:
//
//	go run ./dev/verify/mutation -base main       changes in lines that are not those of main
//	go run ./dev/verify/mutation -only /claim     packages whose path contains that
//	go run ./dev/verify/mutation                  a sample of the changes of each package; hours
//	go run ./dev/verify/mutation -sample 0        every change there is
//	go run ./dev/verify/mutation -show            the changes, without running them
//
// Run it in the directory of the repository. area.go lists the packages, their tests and samples.
// Tests are compiled once, with all changes of a package in them, and a variable of the environment
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
	"strings"
	"syscall"
)

// hunt is a run of the command.
type hunt struct {
	sample        int
	seed          uint64
	show, verbose bool
	since         *diff // nil: all lines are changed
}

func main() {
	var h hunt
	flag.IntVar(&h.sample, "sample", -1, "changes of each package; 0: all; negative: as listed in area.go")
	flag.Uint64Var(&h.seed, "seed", 1, "chooses the sample")
	flag.BoolVar(&h.show, "show", false, "print the changes without running them")
	flag.BoolVar(&h.verbose, "v", false, "print what noticed each change, too")
	only := flag.String("only", "", "packages whose path contains this")
	base := flag.String("base", "", "change only lines that are not those of this revision of git")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := h.run(ctx, *base, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

// run tries each area in turn.
func (h *hunt) run(ctx context.Context, base, only string) (err error) {
	if base != "" {
		if h.since, err = diffSince(ctx, base); err != nil {
			return err
		}
	}
	for _, a := range areas {
		if !strings.Contains(a.files, only) {
			continue
		}
		if err := h.in(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// in tries a sample of the changes of an area and prints those that no test noticed.
func (h *hunt) in(ctx context.Context, a area) error {
	all, err := a.changes(h.since)
	if err != nil || len(all) == 0 {
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
	fmt.Printf("%s: %d of %d noticed, of %d that there are\n", a.files, len(chosen)-len(left), len(chosen), len(all))
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
