package cli

import (
	"errors"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-go/berth"
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

// flagOf is how the command line names what the library calls otherwise.
var flagOf = map[string]string{
	"name": "the semaphore's name cannot be used", "prefix": "--prefix", "pause": "--for",
	"TTL": "--ttl", "weight": "--weight", "HeadStart": "--head-start", "MaxHold": "--max-hold", "QueueLimit": "--queue-limit",
	"Rate": "--rate", "Cost": "--cost", "Tenant": "--tenant", "Share": "--share", "label": "--label",
}

// inFlags words a refusal of the library for who gave a flag.
func inFlags(err error) error {
	wrong, ok := errors.AsType[*berth.InvalidError](err)
	if !ok || flagOf[wrong.What] == "" {
		return err
	}
	return exit.Usagef("%s: %s", flagOf[wrong.What], wrong.Reason)
}

// Usages describes flags, for help and manual pages. pflag shows [=true|false] behind each flag that
// needs no value.
func Usages(flags *pflag.FlagSet) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = flags.SortFlags
	flags.VisitAll(func(f *pflag.Flag) {
		show := *f
		if f.Value.Type() == "bool" {
			show.Value = toggle{f.Value}
		}
		shown.AddFlag(&show)
	})
	return shown.FlagUsages()
}

// toggle is a flag's value that is either there or not.
type toggle struct{ pflag.Value }

// Type implements pflag.Value, with a type that pflag shows without a value.
func (toggle) Type() string { return "boolfunc" }

// IsBoolFlag tells pflag that false is no default worth showing.
func (toggle) IsBoolFlag() bool { return true }

// nameUsages gives Usages its name in cobra's templates, once for the process.
var nameUsages = sync.OnceFunc(func() { cobra.AddTemplateFunc("usages", Usages) })

// showFlags makes the help of all commands describe flags by Usages.
func showFlags(root *cobra.Command) {
	nameUsages()
	root.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages", "usages .LocalFlags", ".InheritedFlags.FlagUsages", "usages .InheritedFlags",
	).Replace(root.UsageTemplate()))
}
