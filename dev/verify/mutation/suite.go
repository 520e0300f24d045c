package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// suite is the compiled tests of a folder.
type suite struct {
	dir, folder, binary string
	tests               []*test
}

// atOnce bounds how long the tests of one process take.
const atOnce = 5 * time.Second

// test is one of its tests.
type test struct {
	name    string
	took    time.Duration
	reaches map[int]bool
	noticed int // how many changes
}

// newSuite runs each test of a folder alone, without any change.
func newSuite(ctx context.Context, dir, folder string) (*suite, error) {
	s := &suite{dir: dir, folder: folder, binary: binary(dir, folder)}
	list := exec.CommandContext(ctx, s.binary, "-test.list", "^(Test|Example|Fuzz)")
	list.Dir = folder
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the tests of %s: %w", folder, err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		t := &test{name: name}
		if err := s.learn(ctx, t); err != nil {
			return nil, err
		}
		s.tests = append(s.tests, t)
	}
	return s, nil
}

// learn runs a test without any change: how long does it take, and what does it reach?
func (s *suite) learn(ctx context.Context, t *test) error {
	reached := filepath.Join(s.dir, "reached")
	if err := os.WriteFile(reached, nil, 0o600); err != nil {
		return err
	}
	began := time.Now()
	if out, err := s.run(ctx, []*test{t}, 5*time.Minute, envReached+"="+reached); err != nil {
		return cmp.Or(ctx.Err(), fmt.Errorf("%s fails without any change: %w: %s", t.name, err, out))
	}
	t.took = time.Since(began)
	raw, err := os.ReadFile(reached)
	if err != nil {
		return err
	}
	t.reaches = map[int]bool{}
	for line := range bytes.FieldsSeq(raw) {
		n, err := strconv.Atoi(string(line))
		if err != nil {
			return err
		}
		t.reaches[n] = true
	}
	return nil
}

// run runs tests of the suite in a process of their own.
func (s *suite) run(ctx context.Context, tests []*test, limit time.Duration, env string) ([]byte, error) {
	names := make([]string, 0, len(tests))
	for _, t := range tests {
		names = append(names, t.name)
	}
	pattern := "^(" + strings.Join(names, "|") + ")$"
	cmd := exec.CommandContext(ctx, s.binary, "-test.run", pattern, "-test.failfast", fmt.Sprintf("-test.timeout=%v", limit))
	cmd.Dir = s.folder
	// A program that the tests build has the changes in it, too.
	cmd.Env = append(os.Environ(), "GOFLAGS=-overlay="+filepath.Join(s.dir, "overlay.json"), env)
	// The interrupt ends the servers of the tests, too.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.CombinedOutput()
}

// failedTest matches what a process says of a test that failed.
var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// try runs the tests that reach change n until one fails. It returns that one's name, or what the
// process said of its end.
func (s *suite) try(ctx context.Context, n int, c *change) (by string, err error) {
	env := envChange + "=" + strconv.Itoa(n)
	script := filepath.Ext(c.file) == ".lua"
	if script {
		if env, err = s.script(c); err != nil {
			return "", err
		}
	}
	// The quickest first; one that noticed others is worth more time.
	slices.SortFunc(s.tests, func(a, b *test) int {
		return cmp.Compare(a.took/time.Duration(1+a.noticed), b.took/time.Duration(1+b.noticed))
	})
	reach := slices.DeleteFunc(slices.Clone(s.tests), func(t *test) bool { return !script && !t.reaches[n] })
	for len(reach) > 0 {
		count, took := 1, reach[0].took
		for count < len(reach) && took+reach[count].took < atOnce {
			took += reach[count].took
			count++
		}
		out, err := s.run(ctx, reach[:count], 10*time.Second+10*took, env)
		if err != nil {
			return s.failed(out), ctx.Err()
		}
		reach = reach[count:]
	}
	return "", ctx.Err()
}

// script writes the script with a change, and returns the variable that names it.
func (s *suite) script(c *change) (env string, err error) {
	raw, err := os.ReadFile(c.file)
	if err != nil {
		return "", err
	}
	file := filepath.Join(s.dir, "script")
	return envScript + "=" + file, os.WriteFile(file, []byte(string(raw[:c.from])+c.new+string(raw[c.to:])), 0o600)
}

// failed notes and returns which test failed.
func (s *suite) failed(out []byte) string {
	m := failedTest.FindSubmatch(out)
	if m == nil {
		return "a process that ended"
	}
	for _, t := range s.tests {
		if t.name == string(m[1]) {
			t.noticed++
		}
	}
	return string(m[1])
}
