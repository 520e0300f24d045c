package main

import (
	"os"
	"path/filepath"
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
		for word := range strings.FieldsSeq(cmd.Short + "\n" + cmd.Long + "\n" + cmd.Example) {
			if !strings.Contains(page, word) {
				t.Errorf("%s has lost %q", name, word)
			}
		}
	}
}

// plain undoes what troff reads in another way than it is written.
func plain(roff string) string {
	return strings.NewReplacer(`\-`, "-", `\&`, "", `\(aq`, "'", `\'`, "'", `\e`, `\`, `\\`, `\`, `\ `, " ", `\~`, "~", `\fB`, "", `\fP`, "").Replace(roff)
}
