package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/job"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/cmd/berth/internal/top"
	"github.com/berth-go/berth/cmd/berth/internal/value"
)

const (
	// leastEvery is the shortest interval.
	leastEvery = 250 * time.Millisecond
	// plainWidth is the width of the text where there is no terminal.
	plainWidth = 100
	// framesPerSecond is how soon a key shows its effect; the data is refreshed four times
	// a second.
	framesPerSecond = 20
)

// topFlags are the flags of "berth top".
type topFlags struct {
	berthwatch.Options
	once, asJSON, readOnly bool
}

func (a *app) topCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the semaphores live",
		Long: `Watch the semaphores live: how many hold and wait, since when, who blocks whom,
and what happens. Looking changes nothing in Redis, and takes 2 % of its time at
most: with very many semaphores the screen is updated less often.

It finds up to 20,000 names by SCAN, for another 2 %: a new one within two
seconds among 1,000 keys, plus 1.5 s for each 1,000 more, up to 30 s; a
hand-off, an expiry or an eviction shows it at once. The busiest 1,000 have a
history.
Marked are leases and waiters that have expired, and damaged semaphores.

Keys: ? lists them. enter shows the holders and the queue of a semaphore, e the
events, / filters. p pauses and resumes, = pins, x evicts: each shows the
command that does the same, and asks first.

Without a terminal it prints the semaphores once, as with --once.`,
		Example: `  berth top
  berth top --names github-api,deploy --every 500ms
  berth top --json | jq -c '.semaphores[] | select(.waiting > 0)'`,
		GroupID: groupLook,
		Args:    takesNo("arguments"),
	}
	flags := cmd.Flags()
	flags.Var(value.Duration(&f.Every, time.Second), "every", "how often to look, at least 250ms")
	flags.StringSliceVar(&f.Names, "names", nil, "look at these `NAMES`, with commas between, and search for no\nothers")
	flags.BoolVar(&f.once, "once", false, "print one picture and end")
	flags.BoolVar(&f.asJSON, "json", false, "print a line of JSON for each look")
	flags.BoolVar(&f.readOnly, "read-only", false, "change nothing, whatever the keys")
	cmd.RunE = func(*cobra.Command, []string) error {
		if flags.Changed("names") && len(f.Names) == 0 {
			return exit.Usagef("--names: it names none")
		}
		if f.Every < leastEvery {
			return exit.Usagef("--every %v: at least %v", f.Every, leastEvery)
		}
		return a.with(func(s *session) error { return a.top(s, f) }, f.Names...)
	}
	return cmd
}

func (a *app) top(s *session, f topFlags) error {
	sampler := berthwatch.New(s.in, f.Options)
	switch {
	case f.once || !f.asJSON && (!isTerminal(a.stdout) || !isTerminal(a.stdin) || os.Getenv("TERM") == "dumb"):
		return a.topOnce(sampler, f.asJSON)
	case f.asJSON:
		return a.topLines(sampler, f.Every)
	default:
		return a.topScreen(s, sampler, f.readOnly)
	}
}

// topOnce prints the semaphores once.
func (a *app) topOnce(sampler *berthwatch.Sampler, asJSON bool) error {
	v, err := sampler.Once(context.Background())
	if err != nil {
		return err
	}
	if asJSON {
		return a.printIndented(v.Sample(), "")
	}
	return a.print(top.Plain(v, cmp.Or(a.columns(), plainWidth), asciiOnly()))
}

// topLines prints a line for each sample, until a signal comes or the reader has gone.
func (a *app) topLines(sampler *berthwatch.Sampler, every time.Duration) error {
	signals, stop := job.Catch()
	defer stop()
	defer start(sampler)()
	var last time.Time
	var failed string
	for clock := time.Tick(min(every, time.Second) / 2); ; {
		v := sampler.Look()
		sample := v.Sample()
		if v.Whole && v.At.After(last) || sample.Error != failed {
			last, failed = v.At, sample.Error
			if err := a.printIndented(sample, ""); err != nil {
				return err
			}
		}
		select {
		case sig := <-signals:
			return exit.Signal(job.Number(sig))
		case <-clock:
		}
	}
}

// start runs the sampler until the function that it returns is called.
func start(sampler *berthwatch.Sampler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { sampler.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// topScreen shows the semaphores live.
func (a *app) topScreen(s *session, sampler *berthwatch.Sampler, forbidden bool) error {
	a.quiet = true // what is written beside the picture spoils it
	defer start(sampler)()
	cfg := top.Config{
		Look: sampler.Look, Detail: sampler.Detail, Refresh: sampler.Refresh, History: sampler.History, Flow: sampler.Flow,
		ASCII: asciiOnly(), Command: a.commandLine(),
		Do: func(ctx context.Context, act berthwatch.Action) error {
			return act.DoInUse(ctx, s.operator(act.Reason))
		},
		Where: a.where, Server: s.describe,
	}
	switch {
	case forbidden:
		cfg.ReadOnly = "--read-only"
	case readOnly():
		cfg.ReadOnly = readOnlyVariable + " is set"
	}
	_, err := tea.NewProgram(top.New(cfg), tea.WithInput(a.stdin), tea.WithOutput(a.stdout), tea.WithFPS(framesPerSecond)).Run()
	switch {
	case errors.Is(err, tea.ErrInterrupted):
		return exit.Signal(unix.SIGINT)
	case err != nil:
		return fmt.Errorf("the terminal cannot be used: %w", err)
	}
	return nil
}

// commandLine returns the beginning of a command that does the same to the same semaphores. A
// URL with a password is not shown: in its place stands a word that is none.
func (a *app) commandLine() string {
	line := []string{"berth"}
	switch url := a.redisURL; {
	case strings.Contains(url, "@") || strings.Contains(strings.ToLower(url), "password"):
		line = append(line, "--redis", "URL")
	case url != "":
		line = append(line, "--redis", url)
	}
	if a.prefix != defaultPrefix {
		line = append(line, "--prefix", a.prefix)
	}
	return berthwatch.Quote(line)
}

// describe describes the server, as far as it tells.
func (s *session) describe(ctx context.Context) string {
	server, err := s.in.Server(ctx)
	if err != nil {
		return ""
	}
	words := []string{server.Version}
	if p := server.Policy; p != "" && p != "noeviction" {
		words = append(words, "evicts ("+p+")")
	}
	if server.Role == "slave" {
		words = append(words, "a replica")
	}
	return screen.Clean(strings.TrimPrefix(strings.Join(words, ", "), ", "))
}

// asciiOnly reports whether the terminal can show only ASCII.
func asciiOnly() bool {
	locale := strings.ToLower(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	utf8 := strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
	return os.Getenv("TERM") == "dumb" || locale != "" && !utf8
}
