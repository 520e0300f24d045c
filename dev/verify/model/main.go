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
	"cmp"
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
	if err := findTools(); err != nil {
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
		res, err := r.run()
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

// cc is the C compiler.
var cc = cmp.Or(os.Getenv("CC"), "gcc")

// findTools returns an error that names all programs that a run needs and that are missing.
func findTools() error {
	var missing []string
	if _, err := exec.LookPath("spin"); err != nil {
		missing = append(missing, "spin is missing: apt-get install spin, or brew install spin")
	}
	if _, err := exec.LookPath(cc); err != nil {
		missing = append(missing, cc+" is missing: apt-get install gcc libc6-dev, or xcode-select --install")
	}
	if len(missing) > 0 {
		return errors.New(strings.Join(missing, "\nmodel: "))
	}
	return nil
}
