package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/berth-go/berth/bench/internal/peer"
	"github.com/berth-go/berth/bench/internal/report"
	"github.com/berth-go/berth/bench/internal/result"
	"github.com/berth-go/berth/bench/internal/scene"
	"github.com/berth-go/berth/internal/measure"
)

// tries is how often a scenario is measured before a violation counts, because a busy
// machine must not look like a regression.
const tries = 3

// check measures what the expectations are about, and compares.
func check(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	f, err := os.Open(o.check)
	if err != nil {
		return measure.Errorf(measure.Usage, "the expectations cannot be read: %w", err)
	}
	defer f.Close()
	bounds, err := result.ReadBounds(f)
	if err != nil {
		return measure.Errorf(measure.Usage, "the expectations in %s cannot be read: %w", o.check, err)
	}
	if o.scenarios = about(o.scenarios, bounds); len(o.scenarios) == 0 {
		return measure.Errorf(measure.Usage, "none of the expectations is about these scenarios")
	}
	bounds = slices.DeleteFunc(bounds, func(b result.Bound) bool {
		return !slices.ContainsFunc(o.scenarios, func(s *scene.Scenario) bool { return s.Key == b.Scenario })
	})
	write, done, err := o.outputs(stdout, func(w io.Writer, r *result.Report) error { return report.Verdicts(r).Write(w, "") })
	if err != nil {
		return err
	}
	defer done()
	rep, err := o.judge(ctx, bounds, stderr)
	if err == nil {
		err = write(rep)
	}
	if err != nil {
		return err
	}
	if n := len(missed(rep)); n > 0 {
		return measure.Errorf(measure.Failure, "expectations that are not met: %d of %d", n, len(bounds))
	}
	return nil
}

// judge measures, and repeats the scenarios whose bounds were violated.
func (o *options) judge(ctx context.Context, bounds []result.Bound, stderr io.Writer) (rep *result.Report, err error) {
	for try := 1; ; try++ {
		if rep, err = o.measure(ctx, stderr, rep, wanted(bounds)); err != nil {
			return nil, err
		}
		rep.Verdicts = nil
		for _, b := range bounds {
			rep.Verdicts = append(rep.Verdicts, rep.Judge(b))
		}
		violated := missed(rep)
		if len(violated) == 0 || try == tries {
			for _, line := range rep.Missing {
				fmt.Fprintln(stderr, "bench: not measured:", line)
			}
			return rep, nil
		}
		o.scenarios = about(o.scenarios, violated)
		for _, s := range o.scenarios {
			fmt.Fprintf(stderr, "bench: %s did not meet its expectations, try %d of %d\n", s.Key, try+1, tries)
			rep.Drop(s.Key)
		}
	}
}

// missed returns the bounds that are not met.
func missed(rep *result.Report) (bounds []result.Bound) {
	for _, v := range rep.Verdicts {
		if v.Result != result.Met {
			bounds = append(bounds, v.Bound)
		}
	}
	return bounds
}

// about returns the scenarios that the bounds are about.
func about(list []*scene.Scenario, bounds []result.Bound) (some []*scene.Scenario) {
	for _, s := range list {
		if slices.ContainsFunc(bounds, func(b result.Bound) bool { return b.Scenario == s.Key }) {
			some = append(some, s)
		}
	}
	return some
}

// wanted returns a condition for the contestants and cases that the bounds need.
func wanted(bounds []result.Bound) func(*scene.Scenario, scene.Case, *peer.Peer) bool {
	return func(s *scene.Scenario, c scene.Case, p *peer.Peer) bool {
		return slices.ContainsFunc(bounds, func(b result.Bound) bool {
			return b.Scenario == s.Key && slices.Contains(b.Cases(), c.Key) && slices.Contains(b.Names(), p.Key)
		})
	}
}
