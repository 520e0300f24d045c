package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth/cmd/berth/internal/connect"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// setHelp sets the help command, and makes --help an error where it is of an unknown command,
// or cannot be written: cobra drops errors there.
func (a *app) setHelp(root *cobra.Command) {
	root.SetHelpCommand(helpCommand())
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		args := cmd.Flags().Args()
		if cmd == root && len(args) > 0 { // "berth nosuch --help", or "berth -h run"
			about, _, err := root.Find(args)
			if err != nil || about == root {
				a.unhelped = a.noCommand(cmd, args)
				return
			}
			about.InitDefaultHelpFlag()
			cmd = about
		}
		if cmd.OutOrStdout() != io.Writer(a.stdout) { // it is not the result
			help(cmd, args)
			return
		}
		var text strings.Builder
		cmd.SetOut(&text)
		help(cmd, args)
		a.unhelped = a.print(text.String())
	})
}

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
			if err == nil && about != cmd.Root() && len(rest) > 0 {
				return exit.Usagef("%q is too much: berth help [COMMAND]", rest[0])
			}
			if err != nil || len(rest) > 0 {
				return exit.Usagef("there is no command %q to help with%s", strings.Join(args, " "), suggestion(cmd.Root(), args))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// meant are words that people type who know other programs, and the commands that do it.
var meant = map[string][]string{
	"run":     {"exec", "flock", "guard", "hold", "lock", "mutex", "parallel", "sem", "start", "with", "wrap"},
	"acquire": {"get", "hold", "lock", "take", "wait"},
	"renew":   {"extend", "heartbeat", "keep", "refresh", "touch"},
	"release": {"drop", "free", "give", "return", "unlock"},
	"agent":   {"daemon", "hold", "server"},
	"ls":      {"all", "list", "ps", "semaphores", "status"},
	"show":    {"describe", "get", "holders", "info", "inspect", "queue", "state", "stat", "status", "waiters"},
	"top":     {"live", "monitor", "stats", "watch"},
	"serve":   {"dashboard", "http", "metrics", "server", "ui", "web"},
	"audit":   {"events", "history", "log", "logs"},
	"doctor":  {"check", "diagnose", "health", "ping", "test"},
	"resize":  {"limit", "scale", "set", "size", "update"},
	"pin":     {"fix", "limit", "override"},
	"unpin":   {"reset", "unset"},
	"pause":   {"block", "cooldown", "disable", "freeze", "stop", "suspend"},
	"resume":  {"continue", "enable", "start", "unblock", "unfreeze", "unpause"},
	"evict":   {"abort", "cancel", "kick", "kill", "remove", "stop", "terminate"},
	"purge":   {"clean", "clear", "del", "delete", "destroy", "drop", "remove", "reset", "rm"},
	"demo":    {"example", "try", "tutorial"},
	"help":    {"man", "usage"},
}

// suggestion names the commands that were probably meant.
func suggestion(root *cobra.Command, args []string) string {
	var near []string
	for _, cmd := range root.Commands() {
		if slices.Contains(meant[cmd.Name()], strings.ToLower(args[0])) {
			near = append(near, cmd.Name())
		}
	}
	if near == nil {
		near = exactly(args[0], root.SuggestionsFor(args[0]))
	}
	if len(near) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(near, " or ") + "?"
}

// topics are help pages, as in "berth help redis".
func topics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "redis", Short: "How berth finds its Redis (help page)", Long: helpRedis},
		{Use: "signals", Short: "What signals do to \"berth run\" (help page)", Long: helpSignals},
		{Use: "exit", Short: "What the exit codes mean (help page)", Long: helpExit},
		{Use: "environment", Short: "Which variables berth reads and sets (help page)", Long: helpEnvironment},
	}
}

const helpRedis = `berth uses the first of these that is set:

  --redis URL
  $BERTH_REDIS_URL
  $BERTH_REDIS_URL_FILE, a file with the URL
  $REDIS_URL
  this machine's own store: an embedded one that the processes of one user
  share through a unix socket in $BERTH_STORE_DIR, by default /tmp/berth-UID,
  root's in /run/berth. berth starts it when needed, and it ends when it has
  been idle for a while ($BERTH_LOCAL_IDLE, default 30s) and holds nothing.
  Nothing is kept on disk. berth says that it uses it, unless -q is given or
  the URL local: names it.

One that is there but empty is an error (exit code 64).

Forms of the URL:

` + connect.Forms + `

Percent-encode special characters in passwords. Prefer the environment to
--redis for a URL with a password: the process list shows arguments to everyone.
Commands of "berth run" inherit the environment, with the URL, unless
--no-inherit-url is given.`

const helpSignals = `The command of "berth run" is in berth's process group. The keys of a terminal
(Ctrl-C, Ctrl-Z), the shell's job control and a hang-up reach the command as if
berth were not there.

Sent to berth alone, a signal is passed on to the command. HUP, INT, QUIT and
TERM also go to the processes that the command has started. In the foreground of
a terminal INT and QUIT are not passed on, because there they come from the
keys: send TERM. A command that ignores a signal continues, and so does berth.
berth ends as the command did, by the same signal or with the same exit code.

While berth waits for the permit, a signal ends it at once; if Redis has just
stopped answering, within two seconds.

When the command is suspended (Ctrl-Z), so is berth: after the TTL the permit is
lost, and the command is ended when it is continued.`

const helpExit = `The exit codes of all commands:

    0  it is done
    1  the answer is no: for example, no such semaphore, or a check has failed
   64  the command line, or a URL, is wrong
   69  Redis cannot be reached, or refuses
   70  the keys are damaged (see "berth purge"), or of a newer berth: upgrade
   74  the result could not be written
   77  BERTH_READ_ONLY forbids it

"berth run" and "berth acquire" have more:

   75  no permit in time, or evicted from the queue (-E changes it)
   76  the lease was lost; "berth renew" and "berth release" have it too
  126  the command cannot be executed
  127  the command was not found
  128+N  signal N ended the command, or the wait

"berth run" exits otherwise as its command did.`

const helpEnvironment = `berth reads these variables:

  BERTH_REDIS_URL           the Redis
  BERTH_REDIS_URL_FILE      a file with the URL
  REDIS_URL                 the Redis, as many platforms set it
  BERTH_TLS_CA_FILE, BERTH_TLS_CERT_FILE, BERTH_TLS_KEY_FILE and
  BERTH_TLS_SERVER_NAME     for TLS, where the URL has no such option
  BERTH_STORE_DIR           where this machine's own store has its socket
  BERTH_LOCAL_IDLE          how long that store stays without use: 30s
  BERTH_AGENT_SOCKET        where "berth agent" listens, and clients find it
  BERTH_AGENT_TOKEN         the token that clients of an agent send
  BERTH_READ_ONLY           1: no change by an operator's verb, exit code 77
  BERTH_COMPLETION_TIMEOUT  how long TAB waits for Redis: 1s
  NO_COLOR, TERM            no colours; dumb: no picture, either

"berth help redis" says which of the first three counts.

"berth run" sets these for its command:

  BERTH_NAME    the semaphore
  BERTH_LEASE   the lease's id
  BERTH_TOKEN   its token, larger than that of any earlier lease
  BERTH_SLOT    its slot: 0 and up, no two holders have the same one
  BERTH_WEIGHT  how many permits it has
  BERTH_LIMIT   how many there are`

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Print the version of berth, the commit that it was built from, if that is known,
the version of Go, and the system that it was built for.`,
		Example: "  berth version",
		GroupID: groupOther,
		Args:    takesNo("arguments"),
		RunE:    func(*cobra.Command, []string) error { return a.print(version() + "\n") },
	}
}

// version says what this program was built from. "go install" of a version knows
// no commit: there the version stands for it.
func version() string {
	name, commit := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		name, commit = cmp.Or(info.Main.Version, name), commitOf(info.Settings)
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
