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

// bench measures and reports, after an interruption what was measured until then.
func (o *options) bench(ctx context.Context, stdout, stderr io.Writer) error {
	out, err := o.output(stdout, report.Text)
	if err != nil {
		return err
	}
	defer out.close()
	r, err := o.begin(ctx, stderr)
	if err != nil {
		return err
	}
	all := func(*trial.Trial, trial.Case, *peer.Peer) bool { return true }
	err = errors.Join(r.measure(ctx, o.scenarios, all), r.end(ctx))
	r.rep.JudgeAll(o.among(result.Targets()))
	return errors.Join(err, out.write(r.rep))
}

// format writes a report in one of its forms.
type format func(io.Writer, *result.Report) error

// output is where a report goes: to stdout in a form, and to a file, if there is one, in the Go
// benchmark format.
type output struct {
	stdout io.Writer
	format
	file *os.File
}

// output returns the output that was asked for. It creates the file at once, so that an error shows
// before minutes of work.
func (o *options) output(stdout io.Writer, text format) (out *output, err error) {
	out = &output{stdout: stdout, format: text}
	switch o.out {
	case "":
	case "-":
		out.format = func(w io.Writer, r *result.Report) error { return r.Write(w) }
	default:
		if out.file, err = os.Create(o.out); err != nil {
			return nil, measure.Errorf(measure.Output, "the result cannot be written: %w", err)
		}
	}
	return out, nil
}

func (out *output) write(r *result.Report) error {
	err := out.format(out.stdout, r)
	if out.file != nil {
		err = errors.Join(err, r.Write(out.file))
	}
	if err != nil {
		return measure.Errorf(measure.Output, "the result could not be written: %w", err)
	}
	return nil
}

func (out *output) close() {
	if out.file != nil {
		_ = out.file.Close()
	}
}
