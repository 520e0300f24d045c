// Package cli is the command line of the benchmarks.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/berth-go/berth/dev/bench/internal/crowd"
	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/bench/internal/trial"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/internal/child"
)

// options are the flags of the command line.
type options struct {
	url, out, check       string
	scenarios             []*trial.Trial
	peers                 []*peer.Peer
	rounds                int
	seed                  uint64
	quick, list, goTimers bool
	command               string
	scale                 trial.Scale
}

// Main runs the program until it is done or interrupted, and returns the exit status.
func Main(args []string, in io.Reader, stdout, stderr io.Writer) int {
	return measure.Run("bench", stderr, func(ctx context.Context) error {
		if role, config := child.Role(); role == crowd.Role {
			return crowd.Main(config, in, stdout)
		}
		o, err := parse(args, stderr)
		switch {
		case errors.Is(err, flag.ErrHelp):
			return nil
		case err != nil:
			return err
		case o.list:
			list(stdout)
			return nil
		}
		return o.run(ctx, stdout, stderr)
	})
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	var only, peers string
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintf(stderr, "Measures berth beside its peers and the floors, in one interleaved run.\n\nUsage: go run ./dev/bench [flags]\n\n")
		fs.PrintDefaults()
	}
	fs.StringVar(&o.url, "redis", "", "`URL` of the Redis to use, which is put under load; default: a redis-server started for the run")
	fs.StringVar(&o.out, "out", "", "write all figures in the Go benchmark format, for benchstat, to this `file`; -: print them instead of tables")
	fs.StringVar(&only, "only", "", "only these `scenarios`, separated by commas")
	fs.StringVar(&peers, "peers", "", "only these `contestants`, separated by commas; berth and the floors always take part")
	fs.IntVar(&o.rounds, "rounds", 5, "how often every contestant has its turn, 1 to 1000")
	fs.BoolVar(&o.quick, "quick", false, "small sizes, for a look")
	fs.BoolVar(&o.list, "list", false, "list the scenarios, with what they measure, and the contestants")
	fs.StringVar(&o.check, "check", "", "measure what the expectations in this `file` are about, and fail if one is not met")
	fs.BoolVar(&o.goTimers, "go-timers", false, "contended: hold permits by Go's timers, which are late where little else wakes the process; not with --check")
	fs.Uint64Var(&o.seed, "seed", 0, "of the order of the contestants; default: another one each time")
	var err error
	if o.command, err = measure.ParseFlags("go run ./dev/bench", fs, args); err != nil {
		return nil, err
	}
	return o, o.complete(only, peers)
}

// complete checks the options and fills in the rest.
func (o *options) complete(only, peers string) error {
	if o.rounds < 1 || o.rounds > 1000 {
		return measure.Errorf(measure.Usage, "--rounds %d: it must be from 1 to 1000", o.rounds)
	}
	if o.goTimers && o.check != "" {
		return measure.Errorf(measure.Usage, "--go-timers: not with --check, whose expectations are about permits that are held by the kernel's timers")
	}
	var err error
	if o.scenarios, err = measure.Choose("scenario", only, trial.All(), func(s *trial.Trial) string { return s.Key }); err != nil {
		return err
	}
	if o.peers, err = measure.Choose("contestant", peers, peer.All(), func(p *peer.Peer) string { return p.Key }); err != nil {
		return err
	}
	if peers != "" {
		chosen := o.peers
		o.peers = slices.DeleteFunc(peer.All(), func(p *peer.Peer) bool {
			compared := p.Key == peer.BerthKey || p.Kind == peer.Floor // with the others
			return !compared && !slices.ContainsFunc(chosen, func(c *peer.Peer) bool { return c.Key == p.Key })
		})
	}
	o.scale = trial.Full()
	if o.quick {
		o.scale = trial.Quick()
	}
	o.scale.GoTimers = o.goTimers
	return nil
}

func list(w io.Writer) {
	fmt.Fprintln(w, "Scenarios:")
	for _, s := range trial.All() {
		fmt.Fprintf(w, "  %-13s %s\n%s\n", s.Key, s.Title, measure.Wrap(s.About+" "+s.Figures, 96, strings.Repeat(" ", 16)))
	}
	fmt.Fprintln(w, "\nContestants:")
	for _, p := range peer.All() {
		fmt.Fprintf(w, "  %-13s %s: %s\n", p.Key, p.Title, p.About)
	}
}

// leeway is how long releasing and cleaning up may take after Ctrl-C.
const leeway = 20 * time.Second
