package cli

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// What people mean who mistype a flag.

// flagError returns what makes cobra's complaints about flags errors of the command line, with what was
// probably meant. args are those of the whole command line.
func flagError(args []string) func(*cobra.Command, error) error {
	return func(cmd *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			return exit.Usagef("%w%s", err, meantFlag(cmd, unknown, args))
		}
		return exit.Usagef("%w", err)
	}
}

// meantFlag tells what an unknown flag of cmd was to be; "": nobody knows.
func meantFlag(cmd *cobra.Command, unknown *pflag.NotExistError, args []string) string {
	name, short := unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames()
	if _, err := strconv.Atoi(short); err == nil {
		return ": a number below 0 is no limit, and no name; -- before a name that begins with - helps"
	}
	if !cmd.HasParent() {
		if later := laterCommand(cmd, args); later != nil && flagOfCommand(later, name, short) != nil {
			return ": it is a flag of " + later.CommandPath() + ": write it after that"
		}
		if short == "v" || short == "V" {
			return ": did you mean --version?"
		}
	}
	if near := nearFlag(cmd, name); short == "" && near != "" {
		return ": did you mean --" + near + "?"
	}
	return ""
}

// laterCommand is the command that an argument names.
func laterCommand(root *cobra.Command, args []string) *cobra.Command {
	for _, arg := range args {
		for _, cmd := range root.Commands() {
			if cmd.Name() == arg {
				return cmd
			}
		}
	}
	return nil
}

func flagOfCommand(cmd *cobra.Command, name, short string) *pflag.Flag {
	if short != "" {
		return cmd.Flags().ShorthandLookup(name)
	}
	return cmd.Flags().Lookup(name)
}

// nearFlag is the flag of cmd whose name differs least from name, if that is little.
func nearFlag(cmd *cobra.Command, name string) (near string) {
	least := min(2, len(name)/2) + 1
	consider := func(f *pflag.Flag) {
		if d := distance(name, f.Name); d < least && !f.Hidden {
			near, least = f.Name, d
		}
	}
	cmd.Flags().VisitAll(consider)
	cmd.InheritedFlags().VisitAll(consider)
	return near
}

// distance is how many letters of a must be changed, taken away or added to make it b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// exactly returns the one of names that is word but for its case, if there is one, and else names.
func exactly(word string, names []string) []string {
	if i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, word) }); i >= 0 {
		return names[i : i+1]
	}
	return names
}
