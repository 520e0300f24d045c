package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Print the version of berth, the commit that it was built from, if that is known,
the version of Go, and the system that it was built for.`,
		Example: "  berth version",
		GroupID: groupOther,
		Args:    takesNo("arguments"),
		RunE:    runs(func(*cobra.Command, []string) error { return a.print(version() + "\n") }),
	}
}

// version says what this program was built from. "go install" of a version knows
// no commit: there the version stands for it.
func version() string {
	name, commit := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			name = info.Main.Version
		}
		commit = commitOf(info.Settings)
	}
	return fmt.Sprintf("berth %s%s %s %s/%s", name, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func commitOf(settings []debug.BuildSetting) string {
	values := map[string]string{}
	for _, s := range settings {
		values[s.Key] = s.Value
	}
	revision := values["vcs.revision"]
	if revision == "" {
		return ""
	}
	text := " commit " + revision[:min(len(revision), 12)] + " of " + values["vcs.time"]
	if values["vcs.modified"] == "true" {
		text += ", modified"
	}
	return text
}
