package main

import (
	"bytes"
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
func (r row) run() (*result, error) {
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
	compile, search := r.flags()
	if _, err := output(dir, "spin", slices.Concat([]string{"-a"}, r.defines(), []string{file})...); err != nil {
		return nil, err
	}
	if _, err := output(dir, cc, append(compile, "-o", "pan", "pan.c")...); err != nil {
		return nil, err
	}
	start := time.Now()
	out, err := output(dir, "./pan", search...)
	if err != nil {
		return nil, err
	}
	res, err := parse(out)
	if err != nil {
		return nil, err
	}
	res.seconds = time.Since(start).Seconds()
	if res.verdict != "holds" {
		err = res.explain(r, dir, string(text))
	}
	return res, err
}

// flags returns the flags for the verifier's compiler, and for the verifier. A
// breadth-first search finds the shortest way to a broken assertion. Runs without
// progress need a depth-first search, under weak fairness; it goes without partial order
// reduction, which gains nothing where all state is shared. -A: assertions are the other
// rows' matter.
func (r row) flags() (compile, search []string) {
	compile, search = []string{"-w", "-O2", "-DMEMLIM=500"}, []string{"-m1000000", "-w22"}
	if r.live {
		return append(compile, "-DNFAIR=3", "-DNOREDUCE"), append(search, "-a", "-f", "-A")
	}
	return append(compile, "-DSAFETY", "-DBFS"), search
}

// output runs a program and returns what it printed, also when it fails.
func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out), err
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
	found, states := group(errorsLine, out), group(statesLine, out)
	if found == "" || states == "" {
		return nil, fmt.Errorf("no verdict:\n%s", strings.TrimSpace(out))
	}
	res := &result{verdict: "holds"}
	res.states, _ = strconv.Atoi(states)
	res.megabytes, _ = strconv.ParseFloat(group(memoryLine, out), 64)
	if found != "0" {
		res.verdict = "breaks ?"
		return res, nil
	}
	if why := unfinished.FindString(out); why != "" {
		return nil, fmt.Errorf("not exhaustive: %s", strings.TrimSpace(why))
	}
	return res, nil
}

// group returns what the first group of the first match holds, or "".
func group(re *regexp.Regexp, text string) string {
	if m := re.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return ""
}

// explain replays the trail of a failure and adds which promise was broken, and how.
func (res *result) explain(r row, dir, text string) error {
	// -T: no indentation by process. spin exits with 1 at a broken assertion.
	out, _ := output(dir, "spin", slices.Concat([]string{"-t", "-T"}, r.defines(), []string{r.model + ".pml"})...)
	broken, trail := readTrail(out, text)
	if r.live {
		broken = group(claimed, text)
	}
	if broken == "" {
		return fmt.Errorf("no promise is named where it failed:\n%s", strings.TrimSpace(out))
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
	lines := strings.Split(text, "\n")
	if n, err := strconv.Atoi(group(failedAt, out)); err == nil && n <= len(lines) {
		broken = group(promise, lines[n-1])
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "spin: trail ends") {
			break
		}
		if !noise.MatchString(line) {
			trail += "    " + strings.TrimRight(line, "\n") + "\n"
		}
	}
	return broken, trail
}
