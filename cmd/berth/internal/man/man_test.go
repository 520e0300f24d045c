package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth/cmd/berth/internal/cli"
)

// Every command has a page, and the way through Markdown loses no word of it.
func TestPagesAreComplete(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	all := []*cobra.Command{cli.Root()}
	for i := 0; i < len(all); i++ {
		all = append(all, all[i].Commands()...)
	}
	for _, cmd := range all {
		if cmd.Hidden {
			continue
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		page := plain(string(text))
		cmd.InitDefaultHelpFlag()
		flags := cli.Usages(cmd.NonInheritedFlags()) + cli.Usages(cmd.InheritedFlags())
		for word := range strings.FieldsSeq(cmd.Short + "\n" + cmd.Long + "\n" + cmd.Example + "\n" + flags) {
			if !strings.Contains(page, word) {
				t.Errorf("%s has lost %q", name, word)
			}
		}
	}
}

// TestReferenceIsUpToDate: docs/commands.md is what the commands say about themselves now.
func TestReferenceIsUpToDate(t *testing.T) {
	const page = "../../../../docs/commands.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != reference() {
		t.Errorf("%s is not what the commands say: run make reference", page)
	}
}

// Every variable of berth that the source names is in "berth help environment".
func TestEnvironmentIsComplete(t *testing.T) {
	page := reference()
	page = page[strings.Index(page, "## berth help environment"):]
	variable := regexp.MustCompile(`"(BERTH_[A-Z_]+)[="]`)
	found := 0
	err := filepath.WalkDir("..", func(name string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, m := range variable.FindAllStringSubmatch(string(text), -1) {
			if found++; !strings.Contains(page, m[1]) {
				t.Errorf("%s: berth help environment does not have %s", name, m[1])
			}
		}
		return err
	})
	if err != nil || found < 10 {
		t.Errorf("%d variables found, %v", found, err)
	}
}

// plain undoes what troff reads in another way than it is written.
func plain(roff string) string {
	return strings.NewReplacer(`\-`, "-", `\&`, "", `\(aq`, "'", `\'`, "'", `\e`, `\`, `\\`, `\`, `\ `, " ", `\~`, "~", `\fB`, "", `\fP`, "").Replace(roff)
}
