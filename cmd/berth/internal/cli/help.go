package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// helpCommand is cobra's own, except that an unknown command is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about a command",
		Long:    "Help about a command, as its --help prints it.",
		Example: "  berth help run",
		GroupID: groupOther,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (words []string, _ cobra.ShellCompDirective) {
			if len(args) == 0 {
				for _, c := range cmd.Root().Commands() {
					if !c.Hidden {
						words = append(words, cobra.CompletionWithDesc(c.Name(), c.Short))
					}
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return exit.Usagef("there is no command %q to help with%s", strings.Join(args, " "), suggestion(cmd.Root(), args))
			}
			about.InitDefaultHelpFlag()
			about.InitDefaultVersionFlag()
			return about.Help()
		},
	}
}

// suggestion names the commands that were probably meant.
func suggestion(root *cobra.Command, args []string) string {
	near := root.SuggestionsFor(args[0])
	if len(near) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(near, " or ") + "?"
}
