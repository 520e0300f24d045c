package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/berth-go/berth/bench/internal/peer"
	"github.com/berth-go/berth/bench/internal/redisd"
	"github.com/berth-go/berth/bench/internal/report"
	"github.com/berth-go/berth/bench/internal/result"
	"github.com/berth-go/berth/bench/internal/scene"
)

// bench measures and reports.
func bench(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	files, err := openFiles(o)
	if err != nil {
		return err
	}
	defer files.close()
	rep, err := o.measure(ctx, stderr, nil)
	if rep == nil {
		return err
	}
	for _, b := range result.Targets() {
		if v := rep.Judge(b); v.Result != result.Unmeasured || slices.ContainsFunc(o.scenarios, func(s *scene.Scenario) bool { return s.Key == b.Scenario }) {
			rep.Verdicts = append(rep.Verdicts, v)
		}
	}
	if werr := errors.Join(report.Text(stdout, rep), files.write(rep)); werr != nil && err == nil {
		return errorf(output, "the result could not be written: %w", werr)
	}
	return err
}

// files are where the report goes besides the terminal. They are opened at
// once: better now than after minutes of work.
type files struct{ json, html *os.File }

func openFiles(o *options) (f files, err error) {
	for _, want := range []struct {
		name string
		file **os.File
	}{{o.json, &f.json}, {o.html, &f.html}} {
		if want.name == "" {
			continue
		}
		if *want.file, err = os.Create(want.name); err != nil {
			f.close()
			return files{}, errorf(output, "the result cannot be written: %w", err)
		}
	}
	return f, nil
}

func (f files) write(rep *result.Report) error {
	var errs []error
	if f.json != nil {
		enc := json.NewEncoder(f.json)
		enc.SetIndent("", " ")
		errs = append(errs, enc.Encode(rep))
	}
	if f.html != nil {
		errs = append(errs, report.HTML(f.html, rep))
	}
	return errors.Join(errs...)
}

func (f files) close() {
	for _, file := range []*os.File{f.json, f.html} {
		if file != nil {
			_ = file.Close()
		}
	}
}

// again is a run of one scenario once more; see check.
type again struct {
	rep  *result.Report
	want func(*scene.Scenario, scene.Case, *peer.Peer) bool
}

// measure runs the scenarios on a Redis and leaves no keys there. The report is
// nil if nothing could be measured; after an interruption it is partial and the
// error tells.
func (o *options) measure(ctx context.Context, stderr io.Writer, a *again) (rep *result.Report, err error) {
	url, own, stop, err := o.redis(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	prefix := redisd.NewPrefix()
	rdb := redisd.Client(url)
	defer rdb.Close()
	if a == nil {
		a = &again{}
	}
	if rep = a.rep; rep == nil {
		rep = &result.Report{
			Command: o.command, At: time.Now(), Seed: o.seed, Rounds: o.rounds, Machine: machine(o.pin),
			Versions: versions(ctx, redisd.Version(ctx, rdb)),
		}
		rep.Machine.Own = own
	}
	peers := o.contestants(ctx, rep, stderr)
	describe(rep, o, peers)
	progress := newProgress(stderr)
	run := &scene.Run{
		Env:       &scene.Env{URL: url, Prefix: prefix, Redis: rdb, Self: self, Scale: o.scale},
		Scenarios: o.scenarios, Peers: peers, Rounds: o.rounds, Seed: o.seed, Want: a.want, Report: rep, Progress: progress.step,
	}
	begin := time.Now()
	err = run.Do(ctx)
	progress.done()
	rep.Took += time.Since(begin).Seconds()
	if err != nil {
		rep.Partial = "it was interrupted"
		if ctx.Err() == nil {
			rep.Partial = err.Error()
			err = &coded{unavailable, err}
		}
	}
	return rep, errors.Join(err, clean(ctx, url, prefix))
}

// clean removes the run's keys, also after an interruption. What clients take
// back in the background has been taken back: they were closed.
func clean(ctx context.Context, url, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leeway)
	defer cancel()
	if _, err := redisd.Clean(ctx, url, prefix); err != nil {
		return errorf(unavailable, "keys with %s in their names could not be removed: %w", prefix, err)
	}
	return nil
}

// redis returns the Redis to measure on, and how to leave it.
func (o *options) redis(ctx context.Context) (url string, own bool, stop func(), err error) {
	if o.url == "" {
		s, err := redisd.Start()
		if err != nil {
			return "", false, nil, errorf(unavailable, "%w", err)
		}
		return s.URL(), true, s.Close, nil
	}
	if _, err := redisd.Parse(o.url); err != nil {
		return "", false, nil, errorf(usage, "the URL of --redis cannot be used: %w", err)
	}
	if err := redisd.Ping(ctx, o.url); err != nil {
		return "", false, nil, errorf(unavailable, "%w", err)
	}
	return o.url, false, func() {}, nil
}

// contestants returns who can take part, and notes who cannot.
func (o *options) contestants(ctx context.Context, rep *result.Report, stderr io.Writer) (list []*peer.Peer) {
	for _, p := range o.peers {
		if p.Key == peer.NPMKey {
			why := peer.NodeMissing()
			if why != "" && o.npm {
				fmt.Fprintln(stderr, "bench: installing npm's redis-semaphore")
				if why = peer.NodeMissing(); peer.InstallNode(ctx) == nil {
					why = peer.NodeMissing()
				}
			}
			if why != "" {
				rep.Skipped = append(rep.Skipped, result.Skip{Peer: p.Key, Why: why})
				continue
			}
		}
		list = append(list, p)
	}
	return list
}

// describe puts into the report what takes part.
func describe(rep *result.Report, o *options, peers []*peer.Peer) {
	rep.Peers, rep.Scenes = nil, nil
	for _, p := range peers {
		rep.Peers = append(rep.Peers, result.Peer{Key: p.Key, Title: p.Title, Kind: string(p.Kind), About: p.About})
	}
	for _, s := range o.scenarios {
		sc := result.Scene{Key: s.Key, Title: s.Title, About: s.About}
		for _, c := range s.Cases(o.scale) {
			sc.Cases = append(sc.Cases, c.Key)
		}
		rep.Scenes = append(rep.Scenes, sc)
	}
}

// self is this program, as a process of a scenario.
func self(command string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	cmd := exec.Command(path, command)
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(runtime.GOMAXPROCS(0)))
	return cmd
}
