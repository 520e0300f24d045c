package main

import (
	"regexp"
	"strings"
	"testing"
)

// The models themselves are checked by make model, which needs spin. What is
// tested here is that its table can be believed.

// macro finds the names that a model tests for.
var macro = regexp.MustCompile(`(?m)^#if(?:n?def|\s+!?defined\()\s*(\w+)|defined\((\w+)\)`)

func TestEveryMacroHasARow(t *testing.T) {
	for _, model := range []string{"fair", "lease", "move", "message", "queue"} {
		text, err := models.ReadFile(model + ".pml")
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
		for _, r := range rows {
			if r.model != model {
				continue
			}
			for d := range strings.FieldsSeq(r.macros) {
				name, _, _ := strings.Cut(d, "=")
				used[name] = true
				if !known[name] {
					t.Errorf("%s.pml does not look at %s: the row %q checks something else", model, name, r.macros)
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

func TestRowsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows {
		key := r.model + " " + r.variant()
		if seen[key] {
			t.Errorf("%q is there twice", key)
		}
		seen[key] = true
	}
}

const report = `
State-vector 112 byte, depth reached 46, errors: %
  1185820 states, stored
  219.001	total actual memory usage
`

func TestParse(t *testing.T) {
	res, err := parse(strings.Replace(report, "%", "0", 1))
	if err != nil || res.verdict != "holds" || res.states != 1185820 || res.megabytes != 219.001 {
		t.Errorf("%+v, %v", res, err)
	}
	res, err = parse(strings.Replace(report, "%", "1", 1))
	if err != nil || res.verdict == "holds" {
		t.Errorf("an error was taken for a pass: %+v, %v", res, err)
	}
	for _, out := range []string{
		"",
		"pan: cannot run",
		"error: max search depth too small\n" + strings.Replace(report, "%", "0", 1),
		"pan: reached -DMEMLIM bound\n" + strings.Replace(report, "%", "0", 1),
	} {
		if res, err := parse(out); err == nil {
			t.Errorf("%q was taken for %q", out, res.verdict)
		}
	}
}

func TestReadTrail(t *testing.T) {
	text := "byte x;\nassert(x == 0); /* S5: nobody would use it */\n"
	out := "ltl L2: x\nA: sends acquire\nNever claim moves to line 4\nspin: m.pml:2, Error: assertion violated\nA: last\nspin: trail ends after 3 steps\nx = 1\n"
	broken, trail := readTrail(out, text)
	if broken != "S5" || trail != "    A: sends acquire\n    A: last\n" {
		t.Errorf("%q, %q", broken, trail)
	}
	if broken, _ := readTrail("spin: m.pml:1, Error: assertion violated\n", text); broken != "" {
		t.Errorf("%q was read where no promise is named", broken)
	}
}
