package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/berth-go/berth/bench/internal/peer"
	"github.com/berth-go/berth/bench/internal/redisd"
	"github.com/berth-go/berth/bench/internal/report"
	"github.com/berth-go/berth/bench/internal/result"
	"github.com/berth-go/berth/bench/internal/scene"
	"github.com/berth-go/berth/internal/measure"
	"github.com/berth-go/berth/internal/redisserver"
)

// bench measures and reports.
func bench(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	write, done, err := o.outputs(stdout, report.Text)
	if err != nil {
		return err
	}
	defer done()
	rep, err := o.measure(ctx, stderr, nil, nil)
	if rep == nil {
		return err
	}
	for _, b := range result.Targets() {
		if v := rep.Judge(b); v.Result != result.Unmeasured || slices.ContainsFunc(o.scenarios, func(s *scene.Scenario) bool { return s.Key == b.Scenario }) {
			rep.Verdicts = append(rep.Verdicts, v)
		}
	}
	if werr := write(rep); err == nil {
		err = werr
	}
	return err
}

// writer is a way to write a report.
type writer func(io.Writer, *result.Report) error

// outputs returns a function that writes all reports that were asked for, and text to stdout, and one
// that closes the files. It creates the files at once, so that an error shows before minutes of work.
func (o *options) outputs(stdout io.Writer, text writer) (write func(*result.Report) error, done func(), err error) {
	var files []*os.File
	var writers []func(*result.Report) error
	done = func() {
		for _, f := range files {
			_ = f.Close()
		}
	}
	add := func(name string, write writer) {
		f, cerr := os.Create(name)
		if cerr != nil {
			err = measure.Errorf(measure.Output, "the result cannot be written: %w", cerr)
			return
		}
		files = append(files, f)
		writers = append(writers, func(r *result.Report) error { return write(f, r) })
	}
	lines := func(w io.Writer, r *result.Report) error { return r.Write(w) }
	switch o.out {
	case "-":
		text = lines
	case "":
	default:
		add(o.out, lines)
	}
	if o.html != "" {
		add(o.html, report.HTML)
	}
	if err != nil {
		done()
	}
	return func(r *result.Report) error {
		werr := text(stdout, r)
		for _, write := range writers {
			werr = errors.Join(werr, write(r))
		}
		if werr != nil {
			return measure.Errorf(measure.Output, "the result could not be written: %w", werr)
		}
		return nil
	}, done, err
}

// measure runs the scenarios on a Redis, leaving out what want does not want, and removes the run's
// keys. It adds to rep, unless that is nil. The report is nil if nothing could be measured; after an
// interruption it is partial, and the error says so.
func (o *options) measure(ctx context.Context, stderr io.Writer, rep *result.Report, want func(*scene.Scenario, scene.Case, *peer.Peer) bool) (*result.Report, error) {
	url, stop, err := o.redis(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	prefix := measure.NewPrefix("berth-bench-")
	rdb := redisd.Client(url)
	defer rdb.Close()
	if rep == nil {
		rep = &result.Report{Command: o.command, At: time.Now(), Berth: revision(ctx), Scenarios: o.scenarios, Scale: o.scale}
		o.describe(ctx, rep, measure.Version(ctx, rdb))
	}
	rep.Peers, rep.Missing = nil, nil
	for _, p := range o.peers {
		if why := p.Missing(); why != "" {
			rep.Missing = append(rep.Missing, p.Title+": "+why)
			continue
		}
		rep.Peers = append(rep.Peers, p)
	}
	progress := measure.NewProgress("bench", stderr)
	run := &scene.Run{
		Env:       &scene.Env{URL: url, Prefix: prefix, Redis: rdb, Scale: o.scale},
		Scenarios: o.scenarios, Peers: rep.Peers, Rounds: o.rounds, Seed: o.seed, Want: want,
		Add: func(s *scene.Scenario, c scene.Case, p *peer.Peer, figures []scene.Figure) {
			rep.Add(s.Key, c.Key, p.Key, figures)
		},
		Skip: func(s *scene.Scenario, c scene.Case, p *peer.Peer, why error) {
			rep.Missing = append(rep.Missing, fmt.Sprintf("%s %s, %s: %v", s.Key, c.Key, p.Title, why))
		},
		Progress: func(s scene.Step) { progress.Step(s.Scenario+" "+s.Case, s.String()) },
	}
	begin := time.Now()
	err = run.Do(ctx)
	progress.Done()
	rep.Took += time.Since(begin)
	if err != nil {
		rep.Partial = "it was interrupted"
		if ctx.Err() == nil {
			rep.Partial = err.Error()
			err = measure.Errorf(measure.Unavailable, "%w", err)
		}
	}
	return rep, errors.Join(err, clean(ctx, url, prefix))
}

// clean removes the run's keys, also after an interruption. The clients are closed by
// then, so none of them makes new keys.
func clean(ctx context.Context, url, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leeway)
	defer cancel()
	if _, err := redisd.Clean(ctx, url, prefix); err != nil {
		return measure.Errorf(measure.Unavailable, "keys with %s in their names could not be removed: %w", prefix, err)
	}
	return nil
}

// redis returns the URL of the Redis to measure on, and a function that stops it.
func (o *options) redis(ctx context.Context) (url string, stop func(), err error) {
	if o.url != "" {
		return o.url, func() {}, redisd.Ping(ctx, o.url)
	}
	s, err := redisserver.Start(redisserver.Config{TCP: true}) // TCP is what most programs use
	if err != nil {
		return "", nil, measure.Errorf(measure.Unavailable, "a server of the benchmarks' own, in place of --redis: %w", err)
	}
	return "redis://" + s.Addr(), s.Close, nil
}
