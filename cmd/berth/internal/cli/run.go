package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
	"github.com/berth-go/berth/cmd/berth/internal/run"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

const runLong = `Run a command while holding a permit of the semaphore NAME.

berth waits in line for the permit, keeps it while the command runs and gives
it back when the command has ended, however it ended. The command is run as it
is, without a shell, with berth's standard streams and in berth's process group.

Signals work as with env and flock. The keys of a terminal (Ctrl-C, Ctrl-Z),
the shell's job control and a hang-up reach the command as if berth were not
there. A signal that is sent to berth alone is passed on to the command; HUP,
INT, QUIT and TERM go to the processes that it has started too. A command that
ignores a signal goes on, and berth with it; berth ends as the command did, by
the same signal or with the same exit code. In the foreground of a terminal INT
and QUIT are not passed on, because there they come from the keys: send TERM.
While berth waits for the permit, a signal ends it at once.

--wait bounds the whole wait: until then berth also waits for an outage of Redis
to end, and then it gives up, whether Redis answers or not. Without --wait berth
waits for ever, but fails if Redis cannot be reached at the beginning.

If the lease is lost (Redis was unreachable for too long, or an operator evicted
it) the command and the processes that it has started get TERM before the lease
can no longer be trusted, and KILL at that moment; with --on-lost=warn they go
on. On Linux the command gets TERM when berth itself is killed.

The permit is released when the command itself has ended: processes that it
leaves behind in the background are not waited for and not killed. When the
command is suspended (Ctrl-Z), so is berth; after the TTL the permit is lost,
and the command is ended when it is continued.

The command's environment has BERTH_NAME, BERTH_LEASE, BERTH_TOKEN, BERTH_SLOT,
BERTH_WEIGHT and BERTH_LIMIT. Slots are numbered from 0; no two holders have
the same one.

Exit codes:
  the command's own, or 128+N if signal N ended it or ended the wait
   64  the command line is wrong
   69  Redis cannot be reached, or refuses
   70  the semaphore's keys are damaged: see "berth purge"
   75  no permit in time, or evicted from the queue (-E changes it)
   76  the lease was lost
  126  the command cannot be executed
  127  the command was not found`

const runExample = `  berth run backup -- rsync -a src/ host:dst/
  berth run -n 5 -w 10m github-api -- ./sync.sh
  berth run --no-wait -q report -- ./report
  berth run -n 4 gpu -- sh -c 'CUDA_VISIBLE_DEVICES=$BERTH_SLOT ./train'`

func (a *app) runCommand() *cobra.Command {
	var p permitFlags
	var onLost string
	cmd := &cobra.Command{
		Use:     "run [flags] NAME -- COMMAND [ARGUMENT...]",
		Short:   "Run a command while holding a permit",
		Long:    runLong,
		Example: runExample,
		GroupID: groupUse,
		Args:    checkRunArgs,
	}
	p.define(cmd, berth.DefaultTTL)
	cmd.Flags().Lookup("label").Usage += "\n(default: the command's name)"
	cmd.Flags().StringVar(&onLost, "on-lost", "kill", "`WHAT` to do when the lease is lost: kill or warn")
	cmd.RunE = runs(func(cmd *cobra.Command, args []string) error {
		// From here on a signal leaves the queue instead of leaving a ghost in it.
		signals, stop := job.Catch()
		defer stop()
		if err := p.check(cmd); err != nil {
			return err
		}
		if onLost != "kill" && onLost != "warn" {
			return exit.Usagef("--on-lost %q: it is kill or warn", onLost)
		}
		return a.run(&p, args[0], args[1:], onLost == "warn", signals)
	})
	return cmd
}

// checkRunArgs insists on the separator: without it, a flag of the command's
// would be taken for one of berth's.
func checkRunArgs(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case len(args) == 0:
		return exit.Usagef("a semaphore's name and a command are missing: berth run NAME -- COMMAND")
	case dash < 0:
		return exit.Usagef("the -- before the command is missing: berth run %s -- COMMAND", args[0])
	case dash == 0:
		return exit.Usagef("the semaphore's name is missing before the --")
	case dash > 1:
		return exit.Usagef("one name is expected before the --, but there are %d: %s", dash, strings.Join(args[:dash], " "))
	case len(args) == dash || args[dash] == "":
		return exit.Usagef("the command after the -- is missing")
	}
	return nil
}

func (a *app) run(p *permitFlags, name string, command []string, warnOnly bool, signals <-chan os.Signal) error {
	// First of all: a command that does not exist must never take a permit.
	path, err := job.Lookup(command[0])
	if err != nil {
		return err
	}
	if p.label == "" {
		p.label = defaultLabel(command[0])
	}
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Close(signals)
	sem, err := p.semaphore(s.client, name)
	if err != nil {
		return err
	}
	cfg := p.config(a, s, sem, signals)
	cfg.Path, cfg.Command, cfg.WarnOnly = path, command, warnOnly
	return run.Run(cfg)
}

// defaultLabel is the command's base name, if that can be a label.
func defaultLabel(command string) string {
	label := screen.Clean(filepath.Base(command))
	return strings.ToValidUTF8(label[:min(len(label), berth.MaxLabel)], "")
}
