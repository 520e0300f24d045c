package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// result is the outcome of a run of spin.
type result struct {
	verdict   string // "holds", or "breaks " and what
	states    int
	megabytes float64
	seconds   float64 // of the search; generating and compiling it takes one or two more
	trail     string  // the steps that led to a failure
}

// run has spin generate a verifier of the model, compiles it and runs it, in a
// directory of its own.
func (t *tools) run(r row) (*result, error) {
	dir, err := os.MkdirTemp("", "berth-model-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := r.model + ".pml"
	text, err := models.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
		return nil, err
	}
	if _, err := output(dir, t.spin, append([]string{"-a"}, append(r.defines(), file)...)...); err != nil {
		return nil, err
	}
	if _, err := output(dir, t.cc, append(compilerFlags(r), "-o", "pan", "pan.c")...); err != nil {
		return nil, err
	}
	start := time.Now()
	out, err := output(dir, "./pan", searchFlags(r)...)
	if err != nil {
		return nil, err
	}
	res, err := parse(out)
	if err != nil {
		return nil, err
	}
	res.seconds = time.Since(start).Seconds()
	if res.verdict != "holds" {
		err = t.explain(res, r, dir, string(text))
	}
	return res, err
}

// compilerFlags returns the flags for the verifier's compiler. A breadth-first search
// finds the shortest way to a broken assertion. Runs without progress need a
// depth-first search, under weak fairness; it goes without partial order reduction,
// which gains nothing where all state is shared.
func compilerFlags(r row) []string {
	flags := []string{"-w", "-O2", "-DMEMLIM=500"}
	if r.live {
		return append(flags, "-DNFAIR=3", "-DNOREDUCE")
	}
	return append(flags, "-DSAFETY", "-DBFS")
}

func searchFlags(r row) []string {
	flags := []string{"-m1000000", "-w22"}
	if r.live {
		return append(flags, "-a", "-f", "-A") // -A: assertions are the other rows' matter
	}
	return flags
}

func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

var (
	errorsLine = regexp.MustCompile(`errors: (\d+)`)
	statesLine = regexp.MustCompile(`(?m)^\s*(\d+) states, stored`)
	memoryLine = regexp.MustCompile(`(?m)^\s*([\d.]+)\s+total actual memory usage`)
	// unfinished matches what says that the search was not exhaustive, or not the one
	// that was meant.
	unfinished = regexp.MustCompile(`(?m)^.*(search depth too small|MEMLIM|out of memory|Search not completed|unconditional self-loop).*$`)
)

// parse reads the verifier's report.
func parse(out string) (*result, error) {
	found, states := errorsLine.FindStringSubmatch(out), statesLine.FindStringSubmatch(out)
	if found == nil || states == nil {
		return nil, fmt.Errorf("no verdict:\n%s", strings.TrimSpace(out))
	}
	res := &result{verdict: "holds"}
	res.states, _ = strconv.Atoi(states[1])
	if m := memoryLine.FindStringSubmatch(out); m != nil {
		res.megabytes, _ = strconv.ParseFloat(m[1], 64)
	}
	if found[1] != "0" {
		res.verdict = "breaks ?"
		return res, nil
	}
	if why := unfinished.FindString(out); why != "" {
		return nil, fmt.Errorf("not exhaustive: %s", strings.TrimSpace(why))
	}
	return res, nil
}

// explain replays the trail of a failure and adds to res which promise was broken,
// and how.
func (t *tools) explain(res *result, r row, dir, text string) error {
	// -T: no indentation by process. spin exits with 1 at a broken assertion.
	args := append([]string{"-t", "-T"}, append(r.defines(), r.model+".pml")...)
	cmd := exec.Command(t.spin, args...)
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput()
	broken, trail := readTrail(string(out), text)
	if r.live {
		broken = claim(text)
	}
	if broken == "" {
		return fmt.Errorf("no promise is named where it failed:\n%s", bytes.TrimSpace(out))
	}
	res.verdict, res.trail = "breaks "+broken, trail
	return nil
}

var (
	failedAt = regexp.MustCompile(`\.pml:(\d+), Error: assertion violated`)
	promise  = regexp.MustCompile(`/\* (\w+)`)
	claimed  = regexp.MustCompile(`(?m)^ltl (\w+)`)
	noise    = regexp.MustCompile(`^(spin: |ltl |Never claim|\s*$)`)
)

// readTrail returns the name of the broken promise, which is the first word of the
// comment at the failed assertion, and the trail without spin's own remarks.
func readTrail(out, text string) (broken, trail string) {
	if at := failedAt.FindStringSubmatch(out); at != nil {
		lines := strings.Split(text, "\n")
		if n, _ := strconv.Atoi(at[1]); n <= len(lines) {
			if m := promise.FindStringSubmatch(lines[n-1]); m != nil {
				broken = m[1]
			}
		}
	}
	var story []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "spin: trail ends") {
			break
		}
		if !noise.MatchString(line) {
			story = append(story, "    "+strings.TrimRight(line, "\n"))
		}
	}
	return broken, strings.Join(story, "\n") + "\n"
}

// claim returns the name of a model's claim of progress.
func claim(text string) string {
	if m := claimed.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}
