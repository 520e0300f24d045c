package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every command and every flag says what it is for, and every example is one
// of the command that it stands with.
func TestHelpIsComplete(t *testing.T) {
	root := Root()
	check(t, root)
	for _, cmd := range root.Commands() {
		if !cmd.Hidden && cmd.IsAvailableCommand() {
			check(t, cmd)
		}
	}
}

func check(t *testing.T, cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	path := cmd.CommandPath()
	if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") || len(cmd.Short) > 60 {
		t.Errorf("%s: its purpose is not one short line without a full stop: %q", path, cmd.Short)
	}
	if cmd.Long == "" {
		t.Errorf("%s: no description", path)
	}
	if !strings.Contains(cmd.Example, path) {
		t.Errorf("%s: no example", path)
	}
	for line := range strings.SplitSeq(cmd.Long+"\n"+cmd.Example, "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("%s: a line of its help is wider than 80 columns: %q", path, line)
		}
	}
	if text := cmd.UsageString(); strings.Contains(text, "[=") || !strings.Contains(text, "  -h, --help ") {
		t.Errorf("%s: it shows a value for a flag that needs none: %s", path, text)
	}
	if cmd.HasParent() && cmd.GroupID == "" {
		t.Errorf("%s: in no group", path)
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
			t.Errorf("%s --%s: its usage is missing or ends with a full stop: %q", path, f.Name, f.Usage)
		}
	})
}
