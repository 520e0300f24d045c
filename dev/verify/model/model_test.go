// Package model has the models of the protocol in Promela, and what checks them. The models
// themselves are checked by make model, which needs spin. What is tested here is that its table can
// be believed.
package model

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rows returns the table of check: for each model its variants.
func rows(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("rows")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] != "#" {
			all[words[0]] = append(all[words[0]], strings.Join(words[2:], " "))
		}
	}
	return all
}

// macro finds the names that a model tests for.
var macro = regexp.MustCompile(`(?m)^#if(?:n?def|\s+!?defined\()\s*(\w+)|defined\((\w+)\)`)

func TestEveryMacroHasARow(t *testing.T) {
	for model, variants := range rows(t) {
		text, err := os.ReadFile(model + ".pml")
		if err != nil {
			t.Fatal(err)
		}
		used := map[string]bool{"LIVE": true, "ROUNDS": true, "TTL": true, "CALL": true, "RETRY": true} // bounds need no row
		if model == "fair" {
			used["CLIENTS"], used["LIMIT"] = true, true
		}
		known := map[string]bool{}
		for _, m := range macro.FindAllStringSubmatch(string(text), -1) {
			known[m[1]+m[2]] = true
		}
		for _, v := range variants {
			for d := range strings.FieldsSeq(strings.TrimPrefix(v, "(progress)")) {
				name, _, _ := strings.Cut(d, "=")
				used[name] = true
				if !known[name] {
					t.Errorf("%s.pml does not look at %s: the row %q checks something else", model, name, v)
				}
			}
		}
		for name := range known {
			if name != "" && !used[name] {
				t.Errorf("%s.pml: no row shows what %s does", model, name)
			}
		}
	}
}

func TestEveryModelHasRowsThatDiffer(t *testing.T) {
	all := rows(t)
	files, _ := filepath.Glob("*.pml")
	if len(files) == 0 || len(files) != len(all) {
		t.Errorf("rows of %d models, and there are %d", len(all), len(files))
	}
	for model, variants := range all {
		if unlike := slices.Compact(slices.Sorted(slices.Values(variants))); len(unlike) != len(variants) {
			t.Errorf("%s has a row twice: %q", model, variants)
		}
	}
}

// TestVerdicts: what check makes of the report of a search, with a spin and a compiler that only
// pretend. A failure is told with its promise, and what is not exhaustive is an error.
func TestVerdicts(t *testing.T) {
	const (
		holds  = "State-vector 112 byte, depth reached 46, errors: 0\n  1185820 states, stored\n  219.001\ttotal actual memory usage\n"
		breaks = "State-vector 112 byte, depth reached 46, errors: 1\n  9 states, stored\n  32.1\ttotal actual memory usage\n"
	)
	assertion := 0
	text, err := os.ReadFile("lease.pml")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, "/* S5") && strings.Contains(line, "assert") {
			assertion = i + 1
		}
	}
	trail := fmt.Sprintf("ltl L2: x\nA: sends acquire\nNever claim moves to line 4\nspin: lease.pml:%d, Error: assertion violated\nA: last\nspin: trail ends after 3 steps\nx = 1\n", assertion)
	for what, c := range map[string]struct {
		report, trail, row string
		fails              bool
		want               string
	}{
		"holds":           {holds, "", "CLIENTS=1 LIMIT=2", false, "| holds        | holds        |  1185820 |  219 |"},
		"breaks":          {breaks, trail, "LATE=2", false, "| breaks S5    | breaks S5    |        9 |   32 |"},
		"story":           {breaks, trail, "LATE=2", false, "lease LATE=2 breaks S5:\n\n    A: sends acquire\n    A: last\n"},
		"surprise":        {holds, "", "LATE=2", true, "| breaks S5    | holds        |  1185820 |  219 |       0 | SURPRISE"},
		"other surprise":  {breaks, trail, "CLIENTS=1 LIMIT=2", true, "| holds        | breaks S5    |        9 |   32 |       0 | SURPRISE"},
		"no promise":      {breaks, "spin: lease.pml:1, Error: assertion violated\n", "LATE=2", true, "no promise is named"},
		"nothing":         {"", "", "LATE=2", true, "no verdict"},
		"cannot run":      {"pan: cannot run\n", "", "LATE=2", true, "no verdict"},
		"not deep enough": {"error: max search depth too small\n" + holds, "", "CLIENTS=1 LIMIT=2", true, "not exhaustive"},
		"memory":          {"pan: reached -DMEMLIM bound\n" + holds, "", "CLIENTS=1 LIMIT=2", true, "not exhaustive"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string, mode os.FileMode) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
					t.Fatal(err)
				}
			}
			write("report", c.report, 0o600)
			write("trail", c.trail, 0o600)
			write("spin", "#!/bin/sh\n[ \"$1\" != -t ] || { cat '"+dir+"/trail'; exit 1; }\n", 0o700)
			write("cc", "#!/bin/sh\nprintf '#!/bin/sh\\ncat %s/report\\n' '"+dir+"' >pan && chmod +x pan\n", 0o700)
			cmd := exec.CommandContext(t.Context(), "./check", "-trails", "-run", "^lease "+c.row+"$")
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "CC=cc")
			out, err := cmd.CombinedOutput()
			if (err != nil) != c.fails || !strings.Contains(string(out), c.want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
