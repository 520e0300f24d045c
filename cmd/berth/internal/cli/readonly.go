package cli

import (
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// readOnlyVariable keeps an operator's shell from changing anything.
const readOnlyVariable = "BERTH_READ_ONLY"

// readOnly reports whether it is set. Values that are neither yes nor no count as yes.
func readOnly() bool {
	v := os.Getenv(readOnlyVariable)
	on, err := strconv.ParseBool(v)
	return on || err != nil && v != ""
}

// writes marks an operator's verb, which does nothing while BERTH_READ_ONLY is set.
func writes(cmd *cobra.Command) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if readOnly() {
			return exit.Errorf(exit.NoPermission, "nothing was changed: %s is set", readOnlyVariable)
		}
		return run(cmd, args)
	}
	return cmd
}
