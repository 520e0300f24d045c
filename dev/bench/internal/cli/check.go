package cli

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/bench/internal/result"
	"github.com/berth-go/berth/dev/bench/internal/trial"
	"github.com/berth-go/berth/dev/internal/measure"
)

// tries is how often a scenario is measured before a violation counts, because a busy
// machine must not look like a regression.
const tries = 3

// bounds returns the targets of the scenarios, or the expectations to check; it then leaves out the
// scenarios that they are not about.
func (o *options) bounds() ([]result.Bound, error) {
	if o.check == "" {
		return o.among(result.Targets()), nil
	}
	f, err := os.Open(o.check)
	if err != nil {
		return nil, measure.Errorf(measure.Usage, "the expectations cannot be read: %w", err)
	}
	defer f.Close()
	bounds, err := result.ReadBounds(f)
	if err != nil {
		return nil, measure.Errorf(measure.Usage, "the expectations in %s cannot be read: %w", o.check, err)
	}
	if o.scenarios = about(o.scenarios, bounds); len(o.scenarios) == 0 {
		return nil, measure.Errorf(measure.Usage, "none of the expectations is about these scenarios")
	}
	return o.among(bounds), nil
}

// judge measures, and repeats the scenarios whose bounds were violated.
func (r *run) judge(ctx context.Context, bounds []result.Bound) error {
	scenarios := r.scenarios
	for try := 1; ; try++ {
		err := r.measure(ctx, scenarios, wanted(bounds))
		r.rep.JudgeAll(bounds)
		if err != nil {
			return err
		}
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
