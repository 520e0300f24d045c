package cli

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/bench/internal/report"
	"github.com/berth-go/berth/dev/bench/internal/result"
	"github.com/berth-go/berth/dev/bench/internal/trial"
	"github.com/berth-go/berth/dev/internal/measure"
)

// run measures and reports, after an interruption what was measured until then. With --check it
// measures only what the expectations are about, and fails if one is not met.
func (o *options) run(ctx context.Context, stdout, stderr io.Writer) error {
	bounds, err := o.bounds()
	if err != nil {
		return err
	}
	var file *os.File
	if o.out != "" && o.out != "-" { // at once, so that an error shows before minutes of work
		if file, err = os.Create(o.out); err != nil {
			return measure.Errorf(measure.Output, "the result cannot be written: %w", err)
		}
		defer file.Close()
	}
	r, err := o.begin(ctx, stderr)
	if err != nil {
		return err
	}
	if o.check != "" {
		err = r.judge(ctx, bounds)
	} else {
		err = r.measure(ctx, o.scenarios, func(*trial.Trial, trial.Case, *peer.Peer) bool { return true })
		r.rep.JudgeAll(bounds)
	}
	err = errors.Join(err, r.end(ctx), o.write(r.rep, stdout, file))
	if n := len(r.rep.Missed()); err == nil && o.check != "" && n > 0 {
		return measure.Errorf(measure.Failure, "expectations that are not met: %d of %d", n, len(bounds))
	}
	return err
}

// write writes the report to stdout and, if there is one, in the Go benchmark format to the file.
func (o *options) write(rep *result.Report, stdout io.Writer, file *os.File) error {
	var err error
	switch {
	case o.out == "-":
		err = rep.Write(stdout)
	case o.check != "":
		err = report.Verdicts(rep).Write(stdout, "")
	default:
		err = report.Text(stdout, rep)
	}
	if file != nil {
		err = errors.Join(err, rep.Write(file))
	}
	if err != nil {
		return measure.Errorf(measure.Output, "the result could not be written: %w", err)
	}
	return nil
}
