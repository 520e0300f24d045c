package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/berth-go/berth/bench/internal/peer"
	"github.com/berth-go/berth/bench/internal/report"
	"github.com/berth-go/berth/bench/internal/result"
	"github.com/berth-go/berth/bench/internal/scene"
	"github.com/berth-go/berth/internal/measure"
)

// tries is how often a scenario is measured before a violation counts: a busy
// machine is no regression.
const tries = 3

// check measures what the expectations are about and compares.
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
	verdicts, err := o.judge(ctx, bounds, stderr)
	if err != nil {
		return err
	}
	return tell(stdout, verdicts)
}

// judge measures, and measures again what was violated.
func (o *options) judge(ctx context.Context, bounds []result.Bound, stderr io.Writer) ([]result.Verdict, error) {
	a := &again{want: wanted(bounds)}
	var verdicts []result.Verdict
	for try := 1; ; try++ {
		rep, err := o.measure(ctx, stderr, a)
		if err != nil {
			return nil, err
		}
		a.rep = rep
		verdicts = verdicts[:0]
		var violated []result.Bound
		for _, b := range bounds {
			v := rep.Judge(b)
			verdicts = append(verdicts, v)
			if v.Result != result.Met {
				violated = append(violated, b)
			}
		}
		if len(violated) == 0 || try == tries {
			for _, s := range rep.Skipped {
				fmt.Fprintf(stderr, "bench: skipped: %s %s %s: %s\n", s.Scenario, s.Case, s.Peer, s.Why)
			}
			return verdicts, nil
		}
		o.scenarios = about(o.scenarios, violated)
		for _, s := range o.scenarios {
			fmt.Fprintf(stderr, "bench: %s did not meet its expectations, try %d of %d\n", s.Key, try+1, tries)
			rep.Drop(s.Key)
		}
		rep.Skipped = nil
	}
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

// wanted holds for the contestants and cases that it takes to judge the bounds.
func wanted(bounds []result.Bound) func(*scene.Scenario, scene.Case, *peer.Peer) bool {
	return func(s *scene.Scenario, c scene.Case, p *peer.Peer) bool {
		return slices.ContainsFunc(bounds, func(b result.Bound) bool {
			return b.Scenario == s.Key && slices.Contains(b.Cases(), c.Key) && slices.Contains(b.Names(), p.Key)
		})
	}
}

// tell prints the verdicts; the error says how many are violated.
func tell(w io.Writer, verdicts []result.Verdict) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "SCENARIO\tFIGURE\tAGAINST\tMEASURED\tMIN–MAX\tEXPECTED\tVERDICT")
	violated := 0
	for _, v := range verdicts {
		verdict, measured, spread := "ok", report.Number(v.Value), report.Number(v.Min)+"–"+report.Number(v.Max)
		switch v.Result {
		case result.Missed:
			verdict = "VIOLATED"
			violated++
		case result.Unmeasured:
			verdict, measured, spread = "NOT MEASURED", "", ""
			violated++
		}
		against := strings.TrimSpace(v.Against + " " + v.Base)
		if v.Invert {
			against += " (times faster)"
		}
		fmt.Fprintf(tw, "%s %s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.Scenario, v.Case, v.Metric, against, measured, spread, v.Limit(), verdict)
	}
	if err := tw.Flush(); err != nil {
		return measure.Errorf(measure.Output, "the result could not be written: %w", err)
	}
	if violated > 0 {
		return errors.New(plural(violated, "expectation") + " not met")
	}
	return nil
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
