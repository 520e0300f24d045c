// Package lab is the laboratory: it puts the source text's semaphores and
// berth's own into the same kinds of trouble and measures what comes of it.
//
// What is judged is what clients believe, from the moment in which they are
// told that they have a permit until they begin to give it back or are told
// that it is lost; see package judge. Package scene has the kinds of trouble,
// package algo the semaphores, package report what is told about the results.
package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-go/berth/cmd/berth/internal/connect"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
	"github.com/berth-go/berth/cmd/berth/internal/lab/algo"
	"github.com/berth-go/berth/cmd/berth/internal/lab/report"
	"github.com/berth-go/berth/cmd/berth/internal/lab/scene"
	"github.com/berth-go/berth/cmd/berth/internal/value"
)

const (
	minDuration, maxDuration = 100 * time.Millisecond, time.Minute
	minPoll, maxPoll         = time.Millisecond, time.Second
	holderName               = "holder" // the hidden command that is a process of a scenario
)

// flags are what the user asked for.
type flags struct {
	scenarios, algorithms []string
	duration, poll        time.Duration
	seed                  uint64
	json                  bool
	html                  string
}

// Command returns "berth lab" for the group of the root command. It has an
// error's exit code in an *exit.Error, always.
func Command(group string) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Measure the trade-offs of semaphores on Redis",
		Long: `Measure the trade-offs of semaphores on Redis: those of "Redis in Action",
section 6.3, and berth's. Each is put into the same trouble, and judged by what
its clients believe to hold.

Runs on an embedded store, or on the Redis of --redis: not on one that only
the environment names, for it is put under load. All keys begin with a random
prefix and are removed at the end. Exits with 1 if berth exceeded its limit.

Scenarios:
` + names(scene.All(), func(s scene.Scenario) (string, string) { return s.Key, s.Title }) + `
Algorithms:
` + names(algo.All(), func(a algo.Algorithm) (string, string) { return a.Key, a.Title }),
		Example: `  berth lab
  berth lab --scenario clocks-10ms --algorithm basic,berth
  berth lab --redis unix:///run/redis.sock --html lab.html`,
		GroupID: group,
		Args:    cobra.NoArgs,
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&f.scenarios, "scenario", nil, "only these, by name or by what it begins with")
	fs.StringSliceVar(&f.algorithms, "algorithm", nil, "only these, by name")
	fs.Var(value.Duration(&f.duration, time.Second), "duration", "how long to watch one algorithm in one scenario, 100ms to 1m")
	fs.Var(value.Duration(&f.poll, 10*time.Millisecond), "poll", "how long clients that were refused wait, on average")
	fs.Uint64Var(&f.seed, "seed", 0, "for the random pauses (default: another one each time)")
	fs.BoolVar(&f.json, "json", false, "print JSON instead of tables")
	fs.StringVar(&f.html, "html", "", "also write a page with pictures to this `file`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return coded(f.run(cmd)) }
	cmd.AddCommand(holderCommand())
	return cmd
}

// coded gives an error the code that fits it.
func coded(err error) error {
	var own *exit.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	return &exit.Error{Code: exit.Of(err), Err: err}
}

func names[T any](list []T, of func(T) (string, string)) string {
	var b strings.Builder
	for _, v := range list {
		key, title := of(v)
		fmt.Fprintf(&b, "  %-14s %s\n", key, strings.ToLower(title[:1])+title[1:])
	}
	return b.String()
}

// holderCommand is a process of a scenario; see scene.Hold.
func holderCommand() *cobra.Command {
	return &cobra.Command{
		Use:    holderName,
		Short:  "A holder of a permit (started by berth itself)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return coded(scene.Hold(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout()))
		},
	}
}

// holderProcess runs this program again, as a holder.
func holderProcess() *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	cmd := exec.Command(path, "lab", holderName)
	cmd.Args[0] = "berth"
	cmd.Stderr = os.Stderr
	return cmd
}

// run is the command.
func (f *flags) run(cmd *cobra.Command) error {
	cfg, err := f.config(cmd)
	if err != nil {
		return err
	}
	var page *os.File
	if f.html != "" {
		// Better now than after a minute's work.
		if page, err = os.Create(f.html); err != nil {
			return exit.Errorf(exit.Output, "the page cannot be written: %w", err)
		}
		defer page.Close()
	}
	rep, err := caught(cmd.Context(), func(ctx context.Context) (*report.Report, error) { return Run(ctx, cfg) })
	if rep == nil || len(rep.Results) == 0 {
		return err
	}
	rep.Command = f.commandLine(cfg)
	if werr := f.write(cmd, rep, page); werr != nil && err == nil {
		err = exit.Errorf(exit.Output, "the result could not be written: %w", werr)
	}
	if keys := rep.Broken(); err == nil && len(keys) > 0 {
		return exit.Errorf(exit.Failure, "berth exceeded its limit in %s: this must not happen", strings.Join(keys, ", "))
	}
	return err
}

func (f *flags) write(cmd *cobra.Command, rep *report.Report, page *os.File) error {
	if page != nil {
		if err := rep.HTML(page); err != nil {
			return err
		}
	}
	if !f.json {
		return rep.Text(cmd.OutOrStdout())
	}
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(rep)
}

// caught runs f until it ends or a signal comes, which ends it.
func caught(ctx context.Context, f func(context.Context) (*report.Report, error)) (*report.Report, error) {
	signals, stop := job.Catch()
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sig := make(chan os.Signal, 1)
	go func() {
		select {
		case s := <-signals:
			sig <- s
			cancel()
		case <-ctx.Done():
		}
	}()
	rep, err := f(ctx)
	select {
	case s := <-sig:
		// What was asked for is a clean end. What is not clean is told.
		if left, ok := errors.AsType[*scene.LeftoverError](err); ok {
			return nil, exit.Errorf(128+int(job.Number(s)), "%w", left)
		}
		return nil, exit.Signal(job.Number(s))
	default:
		return rep, err
	}
}

// config checks the flags.
func (f *flags) config(cmd *cobra.Command) (Config, error) {
	cfg := Config{
		Duration: f.duration, Poll: f.poll, Seed: f.seed, Process: holderProcess,
		Progress: newProgress(cmd.ErrOrStderr()),
	}
	if f.duration < minDuration || f.duration > maxDuration {
		return cfg, exit.Usagef("--duration %v: it must be from %v to %v", f.duration, minDuration, maxDuration)
	}
	if f.poll < minPoll || f.poll > maxPoll {
		return cfg, exit.Usagef("--poll %v: it must be from %v to %v", f.poll, minPoll, maxPoll)
	}
	if !cmd.Flags().Changed("seed") {
		cfg.Seed = rand.Uint64N(1_000_000) //nolint:gosec // short enough to type
	}
	var err error
	if cfg.Scenarios, err = choose("scenario", f.scenarios, scene.All(), func(s scene.Scenario) string { return s.Key }); err != nil {
		return cfg, err
	}
	if cfg.Algorithms, err = choose("algorithm", f.algorithms, algo.All(), func(a algo.Algorithm) string { return a.Key }); err != nil {
		return cfg, err
	}
	// The environment's Redis is not put under load by mistake.
	if raw, _ := cmd.Flags().GetString("redis"); raw != "" {
		target, err := connect.Parse(raw)
		if err != nil {
			return cfg, exit.Usagef("the Redis URL from --redis cannot be used: %w", err)
		}
		cfg.Target, cfg.URL = target, raw
	}
	return cfg, nil
}

// choose returns what was asked for, in the order of all; nothing asks for all.
func choose[T any](what string, asked []string, all []T, key func(T) string) ([]T, error) {
	if len(asked) == 0 {
		return all, nil
	}
	var keys []string
	for _, v := range all {
		keys = append(keys, key(v))
	}
	for _, a := range asked {
		if !slices.ContainsFunc(keys, func(k string) bool { return matches(k, a) }) {
			return nil, exit.Usagef("unknown %s %q: there are %s", what, a, strings.Join(keys, ", "))
		}
	}
	var chosen []T
	for _, v := range all {
		if slices.ContainsFunc(asked, func(a string) bool { return matches(key(v), a) }) {
			chosen = append(chosen, v)
		}
	}
	return chosen, nil
}

// matches lets "clocks" stand for all of clocks-10ms, clocks-1s and so on.
func matches(key, asked string) bool {
	return key == asked || strings.HasPrefix(key, asked+"-")
}

// commandLine is what makes such a report again, without the URL and its secrets.
func (f *flags) commandLine(cfg Config) string {
	args := []string{"berth lab"}
	if len(f.scenarios) > 0 {
		args = append(args, "--scenario", strings.Join(f.scenarios, ","))
	}
	if len(f.algorithms) > 0 {
		args = append(args, "--algorithm", strings.Join(f.algorithms, ","))
	}
	if cfg.Target != nil {
		args = append(args, "--redis URL")
	}
	return strings.Join(append(args, "--duration", cfg.Duration.String(), "--poll", cfg.Poll.String(),
		"--seed", strconv.FormatUint(cfg.Seed, 10)), " ")
}
