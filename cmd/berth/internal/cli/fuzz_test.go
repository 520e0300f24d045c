package cli

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// FuzzRunFlags feeds the command line of berth run, arguments parted by NULs, up
// to where it would connect. It is refused with the code for a wrong command
// line and a clean sentence, or taken as it is: what stands behind the -- is the
// command, to the byte.
func FuzzRunFlags(f *testing.F) {
	for _, s := range []string{
		"s\x00--\x00true", "-n\x003\x00s\x00--\x00true\x00-n\x00x", "--limit=0\x00s\x00--\x00x", "-n\x00-1\x00s\x00--\x00x", "-n\x001e3\x00s\x00--\x00x",
		"-n9223372036854775808\x00s\x00--\x00x", "-W2\x00s\x00--\x00x", "-w\x00-1s\x00s\x00--\x00x", "-w\x00300y\x00s\x00--\x00x",
		"--ttl\x001ns\x00s\x00--\x00x", "--no-wait\x00-w1s\x00s\x00--\x00x", "-E256\x00s\x00--\x00x", "--queue-limit\x00-1\x00s\x00--\x00x",
		"--label\x00\x1b[2J\x00s\x00--\x00x", "--on-lost\x00maybe\x00s\x00--\x00x", "s\x00true", "--\x00s", "s\x00t\x00--\x00x", "s\x00--", "s\x00--\x00",
		"}\x00--\x00x", "--head-start=-1s\x00s\x00--\x00x", "--max-hold=1ns\x00s\x00--\x00x", "--help", "-", "--redis\x00\x1b\x00s\x00--\x00x", "\u202e\x00--\x00x",
	} {
		f.Add(s)
	}
	rdb := redis.NewClient(&redis.Options{})
	f.Cleanup(func() { rdb.Close() })
	client, err := berth.New(rdb)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { client.Close() })
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		command, err := parseRun(client, args)
		if err != nil {
			if got := exit.Of(err); got != exit.Usage {
				t.Fatalf("%q: code %d for %v", args, got, err)
			}
			return
		}
		if command == nil {
			return // help
		}
		if len(command) < 2 || !strings.HasSuffix(line, strings.Join(append([]string{"--"}, command[1:]...), "\x00")) {
			t.Fatalf("%q became %q", args, command)
		}
	})
}

// parseRun does what berth run does before it connects. It returns the
// arguments that are left: the name and the command.
func parseRun(client *berth.Client, args []string) (left []string, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	a := newApp(null, null, null)
	cmd := a.runCommand()
	cmd.SetOut(null)
	cmd.SetErr(null)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	inner := errors.New("declared")
	cmd.SetFlagErrorFunc(flagError(nil))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p, err := permitOf(cmd)
		if err != nil {
			return err
		}
		if err := p.check(cmd); err != nil {
			return err
		}
		if _, err := p.semaphore(client, args[0]); err != nil {
			return err
		}
		left = args
		return inner
	}
	cmd.SetArgs(args)
	if err := cmd.Execute(); !errors.Is(err, inner) {
		return nil, err
	}
	return left, nil
}

// permitOf reads the flags back into the form in which the commands have them.
func permitOf(cmd *cobra.Command) (*permitFlags, error) {
	f, p := cmd.Flags(), &permitFlags{}
	var errs [8]error
	p.limit, errs[0] = f.GetInt("limit")
	p.weight, errs[1] = f.GetInt("weight")
	p.wait, errs[2] = f.GetDuration("wait")
	p.queueLimit, errs[3] = f.GetInt("queue-limit")
	p.ttl, errs[4] = f.GetDuration("ttl")
	p.headStart, errs[5] = f.GetDuration("head-start")
	p.maxHold, errs[6] = f.GetDuration("max-hold")
	p.code, errs[7] = f.GetInt("conflict-exit-code")
	p.label, _ = f.GetString("label")
	return p, errors.Join(errs[:]...)
}
