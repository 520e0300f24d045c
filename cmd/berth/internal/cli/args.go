package cli

import (
	"github.com/spf13/cobra"

	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// takes refuses fewer arguments than least, and more than most unless that is
// negative; what names them with a verb for errors, as in "the handle is".
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		usage := cmd.Parent().CommandPath() + " " + cmd.Use
		switch {
		case len(args) < least:
			return exit.Usagef("%s missing: %s", what, usage)
		case most >= 0 && len(args) > most:
			return exit.Usagef("%q is too much: %s", args[most], usage)
		}
		return nil
	}
}

// takesNo refuses any arguments.
func takesNo(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return exit.Usagef("%s takes no %s", cmd.CommandPath(), what)
		}
		return nil
	}
}
