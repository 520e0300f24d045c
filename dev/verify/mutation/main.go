// Command mutation tests the tests of the core. It makes small changes to its source,
// one at a time, and runs the tests nearest to each:
//
//	go run ./dev/verify/mutation                  a sample of every file, about an hour
//	go run ./dev/verify/mutation -each 0          every change there is
//	go run ./dev/verify/mutation -only claim      files whose path contains that
//	go run ./dev/verify/mutation -show            the changes, without running them
//
// A build sees a change through -overlay; the files stay as they are. A change that
// does not compile is replaced by another one in the same file. Each change that no
// test noticed is printed with its file and line. Tests that fail without any change would
// notice everything: they end the run. Ctrl-C ends it and prints the summary so far.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/berth-go/berth/dev/verify/mutants"
)

// nearest lists the files to change and the tests that must notice. The tests of the promises
// and of the pool run through the session, too.
var nearest = []struct{ files, tests string }{
	{"internal/protocol/*", "./internal/protocol"},
	{"internal/claim/*", "./internal/claim"},
	{"internal/commit/*", "./internal/commit"},
	{"internal/keeper/*", "./internal/keeper"},
	{"internal/inbox/*", "./internal/inbox"},
	{"internal/clock/server.go", "./internal/clock"},
	{"internal/session/*", "./internal/session ./tests/... ./berthpool"},
}

// The files to change are those of a Linux build, without tests.
var (
	changed = regexp.MustCompile(`\.(go|lua)$`)
	kept    = regexp.MustCompile(`(_test|doc|_other)\.go$`)
)

func main() {
	var h hunt
	flag.IntVar(&h.each, "each", 6, "changes of a file of a hundred lines; 0: all")
	flag.Uint64Var(&h.seed, "seed", 1, "chooses the sample")
	only := flag.String("only", "", "files whose path contains this")
	flag.BoolVar(&h.show, "show", false, "print the changes without running them")
	flag.DurationVar(&h.limit, "timeout", 3*time.Minute, "bound on the tests of one change")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := h.run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

// errNoBuild says that a change does not compile.
var errNoBuild = errors.New("does not compile")

// hunt is a run of the command, with its counts so far.
type hunt struct {
	each           int
	seed           uint64
	show           bool
	limit          time.Duration
	dir            string
	tried, noticed int
}

// run tries a sample of the changes of every file and prints those that survive.
func (h *hunt) run(ctx context.Context, only string) (err error) {
	if h.dir, err = os.MkdirTemp("", "berth-mutation"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(h.dir) }()
	for _, n := range nearest {
		sound := h.show
		paths, err := filepath.Glob(n.files)
		if err != nil || len(paths) == 0 {
			return cmp.Or(err, fmt.Errorf("%s is not here: run this in the directory of the repository", n.files))
		}
		for _, path := range paths {
			file := filepath.ToSlash(path)
			if !changed.MatchString(file) || kept.MatchString(file) || !strings.Contains(file, only) {
				continue
			}
			if !sound {
				if err := h.control(ctx, file, n.tests); err != nil {
					return err
				}
				sound = true
			}
			if err := h.file(ctx, file, n.tests); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// control runs the tests of a file as it is; they must pass.
func (h *hunt) control(ctx context.Context, file, tests string) error {
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	failed, err := change{file: file}.try(ctx, h.dir, tests, source, h.limit)
	if err == nil && failed && ctx.Err() == nil {
		err = fmt.Errorf("go test %s fails, or takes longer than %v, without any change", tests, h.limit)
	}
	return err
}

// file tries a sample of the changes of one file.
func (h *hunt) file(ctx context.Context, file, tests string) error {
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	all := changes(file, source)
	rand.New(rand.NewPCG(h.seed, 0)).Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	wanted := len(all)
	if h.each > 0 {
		wanted = min(wanted, 1+bytes.Count(source, []byte("\n"))*h.each/100)
	}
	if h.show {
		for _, c := range all[:wanted] {
			fmt.Println(c)
		}
		return nil
	}
	for _, c := range all {
		if wanted == 0 || ctx.Err() != nil {
			break
		}
		killed, err := c.try(ctx, h.dir, tests, source, h.limit)
		switch {
		case errors.Is(err, errNoBuild), ctx.Err() != nil:
			continue
		case err != nil:
			return err
		case killed:
			h.noticed++
		default:
			fmt.Printf("survived %v\n", c)
		}
		wanted--
		h.tried++
	}
	fmt.Printf("after %s: %d of %d noticed\n", file, h.noticed, h.tried)
	return ctx.Err()
}

// try runs the tests with the change planted and reports whether one failed.
func (c change) try(ctx context.Context, dir, tests string, source []byte, limit time.Duration) (bool, error) {
	original, err := filepath.Abs(c.file)
	if err != nil {
		return false, err
	}
	overlay, err := mutants.Overlay(dir, map[string]string{original: string(source[:c.from]) + c.new + string(source[c.to:])})
	if err != nil {
		return false, err
	}
	args := []string{"test", "-overlay", overlay, "-vet=off", "-count=1", "-failfast", fmt.Sprintf("-timeout=%v", limit)}
	cmd := exec.CommandContext(ctx, "go", append(args, strings.Fields(tests)...)...)
	// The interrupt ends the servers of the tests, too.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return false, fmt.Errorf("%v: %w", c, err)
	}
	if bytes.Contains(out, []byte("[build failed]")) {
		return false, errNoBuild
	}
	return err != nil, nil
}
