package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// emptyIsNone marks a flag for which an empty value is the same as none, and does no harm.
const emptyIsNone = "berth-empty-is-none"

// mayBeEmpty marks a flag of f.
func mayBeEmpty(f *pflag.FlagSet, name string) {
	if err := f.SetAnnotation(name, emptyIsNone, nil); err != nil {
		panic(err) // there is no such flag, which every test would have shown
	}
}

// noEmptyFlags refuses flags that were given with an empty value, as "$UNSET" is to a shell.
// Taken for flags that were not given they would mean something else, and often more: another
// Redis, all leases, no login.
func noEmptyFlags(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		list, isList := f.Value.(pflag.SliceValue)
		empty := isList && len(list.GetSlice()) == 0 || !isList && f.Value.String() == ""
		if _, harmless := f.Annotations[emptyIsNone]; empty && !harmless && err == nil {
			err = exit.Usagef("--%s is empty: give it a value, or leave it out", f.Name)
		}
	})
	return err
}
