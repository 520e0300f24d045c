// Command lab puts the semaphores of Redis in Action, section 6.3, and berth's own into the same
// kinds of trouble and measures the results; dev/lab/README.md says how to read them.
//
//	go run ./dev/lab
//	go run ./dev/lab --scenario clocks-10ms --algorithm basic,berth
//	go run ./dev/lab --redis unix:///run/redis.sock --html lab.html
//
// It judges by what clients believe: that they hold a permit from the moment they are told so
// until they begin to release it or are told that it is lost; see package judge. Package scenario
// has the kinds of trouble, package stage runs them, package algo has the semaphores, and package
// report the presentation.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/berth-go/berth/dev/internal/algo"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/dev/lab/internal/report"
	"github.com/berth-go/berth/dev/lab/internal/stage"
	"github.com/berth-go/berth/internal/child"
)

const (
	minDuration, maxDuration = 100 * time.Millisecond, time.Minute
	minPoll, maxPoll         = time.Millisecond, time.Second
)

func main() { os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// command runs the program and returns its exit status.
func command(args []string, in io.Reader, stdout, stderr io.Writer) int {
	return measure.Run("lab", stderr, func(ctx context.Context) error {
		if role, order := child.Role(); role == stage.Role {
			return stage.Hold(ctx, order, in, stdout)
		}
		f, err := parse(args, stderr)
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		if err != nil {
			return err
		}
		return f.run(ctx, stdout, stderr)
	})
}

// flags are the flags of the command line.
type flags struct {
	cfg                   Config
	scenarios, algorithms string
	json                  bool
	html, again           string
}

const help = `Measures the trade-offs of semaphores on Redis: those of "Redis in Action",
section 6.3, and berth's. Each is put into the same trouble, and judged by what
its clients believe to hold.

Runs on a redis-server that it starts and stops, or on the Redis of --redis,
which is put under load. Without a redis-server on PATH, or with --embedded, it
runs on an embedded store: good enough to see who exceeds the limit, but its
figures about speed and contention mean little.

All keys begin with a random prefix and are removed at the end. Exits with 1 if
berth exceeded its limit.

Usage: go run ./dev/lab [flags]

`

func parse(args []string, stderr io.Writer) (*flags, error) {
	f := &flags{}
	fs := flag.NewFlagSet("lab", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprint(stderr, help)
		fs.PrintDefaults()
		fmt.Fprintln(stderr, "\nScenarios:")
		for _, s := range stage.All() {
			fmt.Fprintf(stderr, "  %-14s %s\n", s.Key, s.Title)
		}
		fmt.Fprintln(stderr, "\nAlgorithms:")
		for _, a := range algo.All() {
			fmt.Fprintf(stderr, "  %-14s %s\n", a.Key, a.Title)
		}
	}
	fs.BoolVar(&f.cfg.Embedded, "embedded", false, "use an embedded store, even where redis-server is installed")
	fs.StringVar(&f.cfg.URL, "redis", "", "`URL` of the Redis to use; redis+cluster:// and redis+sentinel:// as go-redis' ParseClusterURL and ParseFailoverURL")
	fs.StringVar(&f.scenarios, "scenario", "", "only these `scenarios`, separated by commas, by name or by what it begins with")
	fs.StringVar(&f.algorithms, "algorithm", "", "only these `algorithms`, separated by commas")
	fs.DurationVar(&f.cfg.Duration, "duration", time.Second, "how long to watch one algorithm in one scenario, 100ms to 1m")
	fs.DurationVar(&f.cfg.Poll, "poll", 10*time.Millisecond, "how long clients that were refused wait, on average")
	fs.Uint64Var(&f.cfg.Seed, "seed", 0, "for the random pauses; default: another one each time")
	fs.BoolVar(&f.json, "json", false, "print JSON instead of tables")
	fs.StringVar(&f.html, "html", "", "also write a page with pictures to this `file`")
	var err error
	if f.again, err = measure.ParseFlags("go run ./dev/lab", fs, args); err != nil {
		return nil, err
	}
	return f, f.complete()
}

// complete checks the flags and fills in the rest.
func (f *flags) complete() (err error) {
	cfg := &f.cfg
	if cfg.Embedded && cfg.URL != "" {
		return measure.Errorf(measure.Usage, "--embedded and --redis are two stores: give one of them")
	}
	if cfg.Duration < minDuration || cfg.Duration > maxDuration {
		return measure.Errorf(measure.Usage, "--duration %v: it must be from %v to %v", cfg.Duration, minDuration, maxDuration)
	}
	if cfg.Poll < minPoll || cfg.Poll > maxPoll {
		return measure.Errorf(measure.Usage, "--poll %v: it must be from %v to %v", cfg.Poll, minPoll, maxPoll)
	}
	if cfg.Scenarios, err = measure.Choose("scenario", f.scenarios, stage.All(), func(s scenario.Scenario) string { return s.Key }); err != nil {
		return err
	}
	if cfg.Algorithms, err = measure.Choose("algorithm", f.algorithms, algo.All(), func(a algo.Algorithm) string { return a.Key }); err != nil {
		return err
	}
	return nil
}

// run runs the lab and writes the report.
func (f *flags) run(ctx context.Context, stdout, stderr io.Writer) error {
	var page *os.File
	if f.html != "" {
		var err error // open the file before the run, not after a minute of it
		if page, err = os.Create(f.html); err != nil {
			return measure.Errorf(measure.Output, "the page cannot be written: %w", err)
		}
		defer page.Close()
	}
	progress := measure.NewProgress("lab", stderr)
	f.cfg.Step = func(n, all int, scenario, algorithm string) {
		progress.Step(scenario, fmt.Sprintf("%d of %d, %s: %s", n, all, scenario, algorithm))
	}
	rep, err := Run(ctx, f.cfg)
	progress.Done()
	if rep == nil || len(rep.Results) == 0 || ctx.Err() != nil {
		return err
	}
	rep.Command = f.again
	if werr := f.write(stdout, rep, page); werr != nil && err == nil {
		err = measure.Errorf(measure.Output, "the result could not be written: %w", werr)
	}
	if keys := rep.Broken(); err == nil && len(keys) > 0 {
		return measure.Errorf(measure.Failure, "berth exceeded its limit in %s: this must not happen", strings.Join(keys, ", "))
	}
	return err
}

func (f *flags) write(stdout io.Writer, rep *report.Report, page *os.File) error {
	if page != nil {
		if err := rep.HTML(page); err != nil {
			return err
		}
	}
	if !f.json {
		return rep.Text(stdout)
	}
	enc := json.NewEncoder(stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(rep)
}
