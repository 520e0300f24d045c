// Command model checks the Promela models in this directory with spin, each as it is
// and with single safeguards removed, and compares the verdicts with the expected
// ones. A model that holds where it must fail is as wrong as the reverse.
//
//	model [-run regexp] [-trails]
//
// It needs spin and a C compiler, and exits with status 1 if a verdict differs.
// docs/model.md says what the models show and what they do not.
package main

import (
	"embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

//go:embed *.pml
var models embed.FS

func main() {
	run := flag.String("run", "", "check only rows whose model and variant match this `regexp`")
	trails := flag.Bool("trails", false, "print what leads to each failure")
	flag.Parse()
	if err := check(*run, *trails); err != nil {
		fmt.Fprintln(os.Stderr, "model:", err)
		os.Exit(1)
	}
}

func check(pattern string, trails bool) error {
	chosen, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	tools, err := findTools()
	if err != nil {
		return err
	}
	var stories []string
	surprises := 0
	fmt.Printf(line, "model", "variant", "expected", "verdict", "states", "MB", "seconds", "")
	fmt.Printf(line, "---", "---", "---", "---", "---:", "---:", "---:", "")
	for _, r := range rows {
		if !chosen.MatchString(r.model + " " + r.variant()) {
			continue
		}
		res, err := tools.run(r)
		if err != nil {
			return fmt.Errorf("%s %s: %w", r.model, r.variant(), err)
		}
		mark := ""
		if res.verdict != r.expected() {
			surprises++
			mark = " SURPRISE"
		}
		fmt.Printf(line, r.model, r.variant(), r.expected(), res.verdict,
			strconv.Itoa(res.states), fmt.Sprintf("%.0f", res.megabytes), fmt.Sprintf("%.1f", res.seconds), mark)
		if res.trail != "" {
			stories = append(stories, fmt.Sprintf("\n%s %s %s:\n\n%s", r.model, r.variant(), res.verdict, res.trail))
		}
	}
	if trails {
		fmt.Print(strings.Join(stories, ""))
	}
	if surprises > 0 {
		return fmt.Errorf("%d verdicts are not the expected ones", surprises)
	}
	return nil
}

// line formats a row of the table, in Markdown.
const line = "| %-7s | %-64s | %-12s | %-12s | %8s | %4s | %7s |%s\n"

// tools are the programs that a run needs.
type tools struct{ spin, cc string }

// findTools returns the tools, or an error that names all that are missing.
func findTools() (*tools, error) {
	t := &tools{spin: "spin", cc: "gcc"}
	if cc := os.Getenv("CC"); cc != "" {
		t.cc = cc
	}
	var missing []string
	if _, err := exec.LookPath(t.spin); err != nil {
		missing = append(missing, "spin is missing: apt-get install spin, or brew install spin")
	}
	if _, err := exec.LookPath(t.cc); err != nil {
		missing = append(missing, t.cc+" is missing: apt-get install gcc libc6-dev, or xcode-select --install")
	}
	if len(missing) > 0 {
		return nil, errors.New(strings.Join(missing, "\nmodel: "))
	}
	return t, nil
}
