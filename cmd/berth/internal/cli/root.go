// Package cli is berth's command line.
package cli

import (
	"cmp"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/run"
)

// lastWords is how long the end of this process, or what it writes next to standard output,
// waits for its messages to be written.
const lastWords = 500 * time.Millisecond

// app is what the commands share: where they read and write, and the flags
// that every one of them has.
type app struct {
	args                  []string
	stdin, stdout, stderr *os.File
	notices               *run.Notices // on stderr, for what must not wait for its reader

	redisURL, prefix string
	where            string // the server and the prefix, for people; open sets it
	quiet            bool
	timeout          time.Duration // of one request

	reason       string // of an operator's verb
	yes          bool   // do what a verb would ask about
	asJSON       bool   // print what a verb did as JSON
	outcomes     []outcome
	unhelped     error // why there was no help
	startNothing bool  // this machine's own store is used only if it runs
}

// Main runs berth with the arguments after its name and returns the exit code.
func Main(args []string) int {
	// go-redis logs reconnects, which do not help the user of a command line; the command
	// tells their effects.
	logging.Disable()
	cobra.EnableCommandSorting = false // they are in the order in which people need them
	a := newApp(os.Stdin, survivable(os.Stdout), survivable(os.Stderr))
	a.args = args
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err == nil {
		err = a.unhelped
	}
	a.report(cmd, err)
	a.notices.Flush(lastWords)
	exit.Die(err)
	return exit.Of(err)
}

// Root returns the commands, for documentation and tests.
func Root() *cobra.Command {
	return newApp(os.Stdin, os.Stdout, os.Stderr).root()
}

func newApp(stdin, stdout, stderr *os.File) *app {
	return &app{stdin: stdin, stdout: stdout, stderr: stderr, notices: run.NewNotices(stderr), timeout: callTimeout}
}

// survivable returns another descriptor of f. The Go runtime ends the process when a write
// to descriptor 1 or 2 fails with EPIPE; but the process must still look after the command
// that is running, or give a permit back whose handle could not be printed.
func survivable(f *os.File) *os.File {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return f
	}
	return os.NewFile(uintptr(fd), f.Name())
}

// report prints what went wrong, a sentence for each error, and where to find help.
func (a *app) report(cmd *cobra.Command, err error) {
	var own *exit.Error
	if err == nil || errors.As(err, &own) && own.Err == nil {
		return
	}
	kind := exit.Kind(err)
	err = inFlags(err)
	if kind == exit.Unavailable {
		err = a.explain(err)
	}
	a.complain(err)
	if kind == exit.Usage {
		a.notices.Println("Try '" + cmd.CommandPath() + " --help'.")
	}
}

// complain writes an error to standard error, and joined errors on a line each.
func (a *app) complain(err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		a.notices.Printf("%s", strings.TrimPrefix(line, "berth: "))
	}
}

const (
	groupUse   = "use"
	groupLook  = "look"
	groupRule  = "rule"
	groupOther = "other"
)

// defaultPrefix is the library's.
const defaultPrefix = "berth"

// readOnlyVariable keeps an operator's shell from changing anything.
const readOnlyVariable = "BERTH_READ_ONLY"

// readOnly reports whether it is set. Values that are neither yes nor no count as yes.
func readOnly() bool {
	v := os.Getenv(readOnlyVariable)
	on, err := strconv.ParseBool(v)
	return on || err != nil && v != ""
}

// allowed refuses an operator's verb while it is set.
func allowed(cmd *cobra.Command) error {
	if cmd.GroupID == groupRule && readOnly() {
		return exit.Errorf(exit.NoPermission, "nothing was changed: %s is set", readOnlyVariable)
	}
	return nil
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "berth",
		Short: "Limit how many processes do something at once",
		Long: `berth limits how many processes do something at once, on one machine or on
many: distributed counting semaphores on Redis. First come, first served; a
crashed holder's permit is freed.`,
		Example: `  berth run -n 3 backup -- rsync -a src/ host:dst/  at most 3 of these at once
  berth show backup                                 who holds, who waits
  berth demo                                        see it work`,
		SuggestionsMinimumDistance: 2,

		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          a.noCommand,

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return cmp.Or(noEmptyFlags(cmd), allowed(cmd)) },
	}
	root.SetFlagErrorFunc(flagError(a.args))
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.DisableDefaultCmd = true // ours is in its place
	root.Flags().Bool("version", false, "print the version")
	root.AddGroup(
		&cobra.Group{ID: groupUse, Title: "Take permits:"},
		&cobra.Group{ID: groupLook, Title: "See what is going on:"},
		&cobra.Group{ID: groupRule, Title: "Operate:"},
		&cobra.Group{ID: groupOther, Title: "Other:"},
	)
	a.setHelp(root)
	showFlags(root)
	f := root.PersistentFlags()
	f.StringVar(&a.redisURL, "redis", "", "Redis `URL`; prefer $BERTH_REDIS_URL for one with a password:\nother users can see a command's arguments")
	f.StringVar(&a.prefix, "prefix", defaultPrefix, "what all keys begin with")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print no notices, results or warnings; errors still\nappear")
	root.AddCommand(
		a.runCommand(), a.acquireCommand(), a.renewCommand(), a.releaseCommand(), a.agentCommand(),
		a.lsCommand(), a.showCommand(), a.topCommand(), a.serveCommand(), a.auditCommand(), a.doctorCommand(),
	)
	for _, s := range settings {
		root.AddCommand(a.settingCommand(s))
	}
	root.AddCommand(
		a.evictCommand(), a.purgeCommand(), a.demoCommand(), a.demoWorkerCommand(), a.storeCommand(),
		a.completionCommand(), a.versionCommand(),
	)
	root.AddCommand(topics()...)
	a.addCompletion(root)
	if len(a.args) > 0 && a.args[0] == cobra.ShellCompRequestCmd {
		shorten(root)
	}
	return root
}

// noCommand handles a call without a command, or with an unknown one.
func (a *app) noCommand(cmd *cobra.Command, args []string) error {
	if asked, _ := cmd.Flags().GetBool("version"); asked {
		return a.print(version() + "\n")
	}
	if len(args) == 0 {
		cmd.SetOut(a.stderr)
		_ = cmd.Help()
		return exit.Code(exit.Usage)
	}
	return exit.Usagef("unknown command %q%s", args[0], suggestion(cmd, args))
}
