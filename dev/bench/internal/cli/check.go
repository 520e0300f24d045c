package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/bench/internal/report"
	"github.com/berth-go/berth/dev/bench/internal/result"
	"github.com/berth-go/berth/dev/bench/internal/trial"
	"github.com/berth-go/berth/dev/internal/measure"
)

// tries is how often a scenario is measured before a violation counts, because a busy
// machine must not look like a regression.
const tries = 3

// compare measures what the expectations are about, and compares.
func (o *options) compare(ctx context.Context, stdout, stderr io.Writer) error {
	f, err := os.Open(o.check)
	if err != nil {
		return measure.Errorf(measure.Usage, "the expectations cannot be read: %w", err)
	}
	defer f.Close()
	bounds, err := result.ReadBounds(f)
	if err != nil {
		return measure.Errorf(measure.Usage, "the expectations in %s cannot be read: %w", o.check, err)
	}
	bounds = o.among(bounds)
	if o.scenarios = about(o.scenarios, bounds); len(o.scenarios) == 0 {
		return measure.Errorf(measure.Usage, "none of the expectations is about these scenarios")
	}
	out, err := o.output(stdout, func(w io.Writer, r *result.Report) error { return report.Verdicts(r).Write(w, "") })
	if err != nil {
		return err
	}
	defer out.close()
	r, err := o.begin(ctx, stderr)
	if err != nil {
		return err
	}
	if err := errors.Join(r.judge(ctx, bounds), r.end(ctx)); err != nil {
		return err
	}
	if err := out.write(r.rep); err != nil {
		return err
	}
	if n := len(r.rep.Missed()); n > 0 {
		return measure.Errorf(measure.Failure, "expectations that are not met: %d of %d", n, len(bounds))
	}
	return nil
}

// judge measures, and repeats the scenarios whose bounds were violated.
func (r *run) judge(ctx context.Context, bounds []result.Bound) error {
	scenarios := r.scenarios
	for try := 1; ; try++ {
		if err := r.measure(ctx, scenarios, wanted(bounds)); err != nil {
			return err
		}
		r.rep.JudgeAll(bounds)
		scenarios = about(scenarios, r.rep.Missed())
		if len(scenarios) == 0 || try == tries {
			for _, line := range r.rep.Missing {
				fmt.Fprintln(r.stderr, "bench: not measured:", line)
			}
			return nil
		}
		for _, s := range scenarios {
			fmt.Fprintf(r.stderr, "bench: %s did not meet its expectations, try %d of %d\n", s.Key, try+1, tries)
			r.rep.Drop(s.Key)
		}
	}
}

// among returns the bounds that are about the chosen scenarios.
func (o *options) among(bounds []result.Bound) []result.Bound {
	return slices.DeleteFunc(bounds, func(b result.Bound) bool {
		return !slices.ContainsFunc(o.scenarios, func(s *trial.Trial) bool { return s.Key == b.Scenario })
	})
}

// about returns the scenarios that the bounds are about.
func about(list []*trial.Trial, bounds []result.Bound) []*trial.Trial {
	return slices.DeleteFunc(slices.Clone(list), func(s *trial.Trial) bool {
		return !slices.ContainsFunc(bounds, func(b result.Bound) bool { return b.Scenario == s.Key })
	})
}

// wanted returns a condition for the contestants and cases that the bounds need.
func wanted(bounds []result.Bound) wish {
	return func(s *trial.Trial, c trial.Case, p *peer.Peer) bool {
		return slices.ContainsFunc(bounds, func(b result.Bound) bool {
			return b.Scenario == s.Key && slices.Contains(b.Cases(), c.Key) && slices.Contains(b.Names(), p.Key)
		})
	}
}
