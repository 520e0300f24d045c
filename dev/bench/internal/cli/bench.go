package cli

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/bench/internal/report"
	"github.com/berth-go/berth/dev/bench/internal/result"
	"github.com/berth-go/berth/dev/bench/internal/scene"
	"github.com/berth-go/berth/dev/internal/measure"
)

// bench measures and reports, after an interruption what was measured until then.
func (o *options) bench(ctx context.Context, stdout, stderr io.Writer) error {
	out, err := o.outputs(stdout, report.Text)
	if err != nil {
		return err
	}
	defer out.close()
	r, err := o.begin(ctx, stderr)
	if err != nil {
		return err
	}
	all := func(*scene.Scenario, scene.Case, *peer.Peer) bool { return true }
	err = errors.Join(r.measure(ctx, o.scenarios, all), r.end(ctx))
	r.rep.JudgeAll(o.among(result.Targets()))
	return errors.Join(err, out.write(r.rep))
}

// format writes a report in one of its forms.
type format func(io.Writer, *result.Report) error

// output is where a report goes, and in which form.
type output struct {
	io.Writer
	format
}

type outputs []output

// outputs returns the outputs that were asked for, the first of which is stdout with the text. It
// creates the files at once, so that an error shows before minutes of work.
func (o *options) outputs(stdout io.Writer, text format) (out outputs, err error) {
	create := func(name string, f format) {
		if name == "" || err != nil {
			return
		}
		file, cerr := os.Create(name)
		if cerr != nil {
			err = measure.Errorf(measure.Output, "the result cannot be written: %w", cerr)
			return
		}
		out = append(out, output{file, f})
	}
	lines := func(w io.Writer, r *result.Report) error { return r.Write(w) }
	if o.out == "-" {
		out = outputs{{stdout, lines}}
	} else {
		out = outputs{{stdout, text}}
		create(o.out, lines)
	}
	create(o.html, report.HTML)
	if err != nil {
		out.close()
	}
	return out, err
}

func (out outputs) write(r *result.Report) error {
	var errs []error
	for _, o := range out {
		errs = append(errs, o.format(o, r))
	}
	if err := errors.Join(errs...); err != nil {
		return measure.Errorf(measure.Output, "the result could not be written: %w", err)
	}
	return nil
}

// close closes the files, but not stdout.
func (out outputs) close() {
	for _, o := range out[1:] {
		_ = o.Writer.(io.Closer).Close()
	}
}
