// Package cli is berth's command line.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/cmd/berth/internal/connect"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// app is what the commands share: where they read and write, and the flags
// that every one of them has.
type app struct {
	args   []string
	stdin  io.Reader
	stdout io.Writer
	stderr *os.File

	redisURL string
	prefix   string
	quiet    bool

	reason string // of an operator's verb

	unknown error // that help was asked for a command that is not there

	startNothing bool // this machine's own store is used only if it runs
}

// Main runs berth with the arguments after its name and returns the exit code.
func Main(args []string) int {
	// go-redis logs reconnects, which do not help the user of a command line; the command
	// tells their effects.
	logging.Disable()
	cobra.EnableCommandSorting = false // they are in the order in which people need them
	a := &app{args: args, stdin: os.Stdin, stdout: survivable(os.Stdout), stderr: survivable(os.Stderr)}
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err == nil {
		err = a.unknown
	}
	a.report(cmd, err)
	exit.Die(err)
	return codeOf(err)
}

// Root returns the commands, for documentation and tests.
func Root() *cobra.Command {
	return (&app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}).root()
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

// codeOf returns the exit code of an error. Errors without a code are about the command
// line, as all of cobra's are.
func codeOf(err error) int {
	var ran *ranError
	if err == nil || errors.As(err, &ran) {
		return exit.Of(err)
	}
	if own, ok := errors.AsType[*exit.Error](err); ok {
		return own.Code
	}
	return exit.Usage
}

// report prints what went wrong, a sentence for each error, and where to find help.
func (a *app) report(cmd *cobra.Command, err error) {
	var own *exit.Error
	if err == nil || errors.As(err, &own) && own.Err == nil {
		return
	}
	if codeOf(err) == exit.Unavailable {
		err = a.explain(err)
	}
	a.complain(err)
	if codeOf(err) == exit.Usage {
		fmt.Fprintf(a.stderr, "Try '%s --help'.\n", cmd.CommandPath())
	}
}

// complain writes an error to standard error, and joined errors on a line each.
func (a *app) complain(err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintf(a.stderr, "berth: %s\n", screen.Clean(strings.TrimPrefix(line, "berth: ")))
	}
}

// ranError marks the error of a command that ran: it is not about the command line unless
// it has that code.
type ranError struct{ err error }

// Error implements error.
func (e *ranError) Error() string { return e.err.Error() }

// Unwrap returns the command's error.
func (e *ranError) Unwrap() error { return e.err }

// runs wraps a command's function.
func runs(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := f(cmd, args); err != nil {
			return &ranError{err}
		}
		return nil
	}
}

const (
	groupUse   = "use"
	groupLook  = "look"
	groupRule  = "rule"
	groupOther = "other"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "berth",
		Short: "Limit how many processes do something at once",
		Long: `berth limits how many processes do something at once, on one machine or on
many: distributed counting semaphores on Redis. First come, first served; a
permit comes back when its holder crashes.`,
		Example: `  berth run -n 3 backup -- rsync -a src/ host:dst/  at most 3 of these at once
  berth show backup                                 who holds, who waits
  berth demo                                        see it work`,
		SuggestionsMinimumDistance: 2,

		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE:          a.noCommand,
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.DisableDefaultCmd = true // ours is in its place
	root.Version = version()
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	root.AddGroup(
		&cobra.Group{ID: groupUse, Title: "Take permits:"},
		&cobra.Group{ID: groupLook, Title: "See what is going on:"},
		&cobra.Group{ID: groupRule, Title: "Operate:"},
		&cobra.Group{ID: groupOther, Title: "Other:"},
	)
	root.SetHelpCommand(helpCommand())
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		args := cmd.Flags().Args()
		if cmd == root && len(args) > 0 { // "berth nosuch --help"
			a.unknown = a.noCommand(cmd, args)
			return
		}
		help(cmd, args)
	})
	f := root.PersistentFlags()
	f.StringVar(&a.redisURL, "redis", "", "Redis `URL`; prefer $BERTH_REDIS_URL for one with a password:\nother users can see a command's arguments")
	f.StringVar(&a.prefix, "prefix", "berth", "what all keys begin with")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "say nothing of this machine's own store, and nothing when\nthere was no permit in time: the exit code tells")
	root.AddCommand(
		a.runCommand(), a.acquireCommand(), a.renewCommand(), a.releaseCommand(),
		a.lsCommand(), a.showCommand(), a.topCommand(), a.serveCommand(), a.auditCommand(), a.doctorCommand(),
		writes(a.resizeCommand()), writes(a.pinCommand()), writes(a.unpinCommand()),
		writes(a.pauseCommand()), writes(a.resumeCommand()), writes(a.evictCommand()), writes(a.purgeCommand()),
		a.demoCommand(), a.demoWorkerCommand(), a.storeCommand(),
		a.completionCommand(), a.versionCommand(), connectTopic(), exitTopic(),
	)
	a.addCompletion(root)
	return root
}

// noCommand handles a call without a command, or with an unknown one.
func (a *app) noCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		cmd.SetOut(a.stderr)
		_ = cmd.Help()
		return exit.Code(exit.Usage)
	}
	return exit.Usagef("unknown command %q%s", args[0], suggestion(cmd, args))
}

// connectTopic is a help page: "berth help redis".
func connectTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "redis",
		Short: "How berth finds its Redis (help page)",
		Long: `berth uses the first of these that is set:

  --redis URL
  $BERTH_REDIS_URL
  $REDIS_URL
  this machine's own store: an embedded one that the processes of one user
  share through a unix socket in $BERTH_STORE_DIR, by default /tmp/berth-UID,
  root's in /run/berth. It is started when it is needed and goes when it has
  been idle for a while ($BERTH_LOCAL_IDLE, default 30s) and holds nothing.
  Nothing is kept on disk.

Forms of the URL:

` + connect.Forms + `

Percent-encode special characters in passwords. Prefer the environment to
--redis for a URL with a password: the process list shows arguments to everyone.`,
	}
}

// exitTopic is a help page: "berth help exit".
func exitTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit",
		Short: "What the exit codes mean (help page)",
		Long: `The exit codes of all commands:

    0  it is done
    1  the answer is no: for example, no such semaphore, or a check has failed
   64  the command line, or a URL, is wrong
   69  Redis cannot be reached, or refuses
   74  the result could not be written
   77  BERTH_READ_ONLY forbids it

"berth run" and "berth acquire" have more:

   70  the semaphore's keys are damaged: see "berth purge"
   75  no permit in time, or evicted from the queue (-E changes it)
   76  the lease was lost; "berth renew" and "berth release" have it too
  126  the command cannot be executed
  127  the command was not found
  128+N  signal N ended the command, or the wait

"berth run" exits otherwise as its command did.`,
	}
}
