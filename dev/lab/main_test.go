package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/berth-go/berth/dev/internal/algo"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/dev/lab/internal/report"
	"github.com/berth-go/berth/dev/lab/internal/stage"
	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestMain lets the test binary be a process of a scenario, and the program.
func TestMain(m *testing.M) {
	if role, _ := child.Role(); role != "" || os.Getenv(program) != "" {
		os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	redistest.Main(m)
}

// program is set in the environment of a test binary that is the program.
const program = "BERTH_LAB_PROGRAM"

const brief = 250 * time.Millisecond

func config(scenarios []string, algorithms ...algo.Algorithm) Config {
	cfg := Config{
		Algorithms: algorithms, Env: stage.Env{Embedded: true, Duration: brief, Poll: 5 * time.Millisecond, Seed: 1},
		Step: func(int, int, string, string) {},
	}
	for _, sc := range stage.All() {
		if slices.Contains(scenarios, sc.Key) {
			cfg.Scenarios = append(cfg.Scenarios, sc)
		}
	}
	return cfg
}

func at(url string, cfg Config) Config {
	cfg.URL, cfg.Embedded = url, false
	return cfg
}

func algorithm(t *testing.T, key string) algo.Algorithm {
	t.Helper()
	for _, a := range algo.All() {
		if a.Key == key {
			return a
		}
	}
	t.Fatalf("no algorithm %q", key)
	return algo.Algorithm{}
}

// onBoth runs body on the embedded store and on a Redis of its own.
func onBoth(t *testing.T, body func(t *testing.T, on func(Config) Config)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		body(t, func(cfg Config) Config { return cfg })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t)
		body(t, func(cfg Config) Config { return at(s.URL(), cfg) })
		noKeys(t, s)
	})
}

func noKeys(t *testing.T, s *redistest.Server) {
	t.Helper()
	if keys := s.Do(t, "KEYS", "*"); len(keys.([]any)) > 0 {
		t.Errorf("keys are left: %v", keys)
	}
}

func mustRun(t *testing.T, cfg Config) *report.Report {
	t.Helper()
	rep, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !rep.Complete || len(rep.Results) != len(cfg.Scenarios)*len(cfg.Algorithms) {
		t.Fatalf("%d results, complete: %v", len(rep.Results), rep.Complete)
	}
	return rep
}

// planted is a semaphore in memory that gives out as many permits as it wants.
type planted struct{ free chan struct{} }

func plant(permits int) algo.Algorithm {
	var once sync.Once
	p := &planted{}
	return algo.Algorithm{Key: "planted", Title: "planted", Open: func(s algo.Setup) (algo.Client, error) {
		once.Do(func() { p.free = make(chan struct{}, s.Limit+permits) })
		return p, nil
	}}
}

func (p *planted) Acquire(ctx context.Context, _ func()) (*algo.Permit, bool, error) {
	select {
	case p.free <- struct{}{}:
		return &algo.Permit{
			Release: func(context.Context) (bool, error) { <-p.free; return true, nil },
			Check:   func(context.Context) bool { return true },
			Until:   func() time.Time { return time.Time{} },
		}, true, nil
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}
func (*planted) Close() {}

// The laboratory finds a semaphore out that gives one permit too many, and one
// that ignores the limit, and does not accuse one that keeps it.
func TestPlantedViolationsAreFoundAndOthersAreNot(t *testing.T) {
	t.Parallel()
	scenarios := []string{"clocks-10ms", "contended", "fairness"}
	for name, tt := range map[string]struct{ extra, worst int }{
		"keeps the limit":   {0, 0},
		"one too many":      {1, 1},
		"ignores the limit": {1000, 3}, // at least
		"gives too few":     {-1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, sc := range scenarios {
				r := mustRun(t, config([]string{sc}, plant(tt.extra))).Results[0]
				l := r.Limits
				if tt.worst == 0 && (l.Moments != 0 || l.WorstOver != 0 || l.Stolen != 0 || l.OverMS != 0 || l.MostHeld > r.Limit) {
					t.Errorf("%s: accused of what it did not do: %+v", sc, l)
				}
				if tt.worst > 0 && (l.Moments == 0 || l.WorstOver < tt.worst || l.Stolen == 0 || l.OverMS == 0 || l.MostHeld <= r.Limit) {
					t.Errorf("%s: the violation was not found: %+v", sc, l)
				}
				if tt.worst == 1 && l.WorstOver != 1 {
					t.Errorf("%s: over by %d, planted was 1", sc, l.WorstOver)
				}
				if r.Rate.Acquires == 0 {
					t.Errorf("%s: nothing happened", sc)
				}
			}
		})
	}
}

func TestBerthKeepsItsLimitAndOrderEverywhere(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, on func(Config) Config) {
		cfg := on(config(nil, algorithm(t, "berth")))
		cfg.Scenarios = stage.All()
		rep := mustRun(t, cfg)
		if broken := rep.Broken(); len(broken) > 0 {
			t.Errorf("over the limit in %v", broken)
		}
		acquires := 0
		for _, r := range rep.Results {
			switch {
			case r.Pause != nil && !r.Pause.Told:
				t.Errorf("a paused holder was not told: %+v", r.Pause)
			case r.Cut != nil && r.Cut.Wrong > 0:
				t.Errorf("interrupted releases: %+v", r.Cut)
			case r.Crash != nil && len(r.Crash.BackMS) != 3:
				t.Errorf("crashed permits: %+v", r.Crash)
			case r.Waits != nil && r.Waits.Overtaken > 0:
				t.Errorf("%s: %d of %d requests were overtaken", r.Scenario, r.Waits.Overtaken, r.Waits.Requests)
			}
			if r.Rate != nil {
				acquires += r.Rate.Acquires
			}
		}
		if acquires == 0 {
			t.Error("nothing happened")
		}
	})
}

// A holder whose machine stood still for a TTL really has lost its permit when it
// releases it. One that knows of no time until which it had it is believed nothing.
func TestReleaseAfterAStandstillIsNoWrongReport(t *testing.T) {
	t.Parallel()
	for _, knows := range []bool{true, false} {
		a := plant(0)
		open := a.Open
		a.Open = func(s algo.Setup) (algo.Client, error) {
			c, err := open(s)
			return &stalled{c, knows}, err
		}
		r := mustRun(t, config([]string{"release"}, a)).Results[0]
		if wrong := r.Cut.Wrong > 0; wrong == knows || r.Cut.Replies == 0 {
			t.Errorf("knows until when: %v; %+v", knows, r.Cut)
		}
	}
}

// stalled is a client whose machine stands still after it has got a permit.
type stalled struct {
	algo.Client
	knows bool // until when it had the permit
}

func (s *stalled) Acquire(ctx context.Context, queued func()) (*algo.Permit, bool, error) {
	p, ok, err := s.Client.Acquire(ctx, queued)
	if !ok {
		return p, ok, err
	}
	lost := *p
	until := time.Time{}
	if s.knows {
		until = time.Now()
	}
	lost.Until = func() (at time.Time) {
		at, until = until, time.Time{}
		return at
	}
	lost.Release = func(ctx context.Context) (bool, error) {
		_, err := p.Release(ctx)
		return false, err
	}
	return &lost, ok, err
}

// What the chapter's semaphores do wrong on any machine, at any speed, is seen.
func TestKnownFaultsAreSeen(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, on func(Config) Config) {
		rep := mustRun(t, on(config([]string{"crash", "pause", "release"}, algorithm(t, "basic"), algorithm(t, "underlock"))))
		for _, r := range rep.Results {
			switch {
			case r.Crash != nil && r.Crash.Early > 0:
				t.Errorf("%s: permits were back before they had timed out: %+v", r.Title, r.Crash)
			case r.Crash != nil && r.Algorithm == "underlock" && afterDeath(r) < 400*time.Millisecond:
				t.Errorf("underlock: nobody was held up by a death in the middle of an acquire: %+v", r.Crash)
			case r.Pause != nil && r.Algorithm == "basic" && (r.Pause.Told || r.Limits.Moments == 0):
				t.Errorf("a paused holder of basic was told: %+v", r.Pause)
			case r.Cut != nil && (r.Cut.Wrong != r.Cut.Replies || nextAfter(r) < 300*time.Millisecond):
				t.Errorf("%s: interrupted releases: %+v", r.Title, r.Cut)
			}
		}
	})
}

// afterDeath is how long after the last release, and so after the process was started that dies in
// the middle of its acquire, the next client got a permit: not before the lock's time-out of 500 ms.
// Redis measures that by a clock of its own, which is why less is asked for.
func afterDeath(r *stage.Result) time.Duration {
	last := len(r.Requests) - 1
	return r.Requests[last].Start - r.Requests[last-1].End
}

// nextAfter is how long after the first permit was asked for, whose release was
// lost, the next client got it: not before the time-out of 300 ms.
func nextAfter(r *stage.Result) time.Duration { return r.Requests[1].Start - r.Requests[0].Asked }

// Whenever it is told to end, it ends, with nothing left.
func TestCancelLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, sc := range stage.All() {
		for _, key := range []string{"underlock", "berth"} {
			ctx, cancel := context.WithCancel(t.Context())
			cfg := at(s.URL(), config([]string{sc.Key}, algorithm(t, key)))
			cfg.Duration = time.Minute
			cfg.Step = func(int, int, string, string) { time.AfterFunc(60*time.Millisecond, cancel) }
			// Two of them are over by themselves within a second.
			if _, err := Run(ctx, cfg); err == nil && sc.Key != "crash" && sc.Key != "pause" {
				t.Errorf("%s, %s: a run that was cancelled says that it is complete", sc.Key, key)
			}
			cancel()
			noKeys(t, s)
		}
	}
}

func TestRedisThatDisappears(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"basic", "berth"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			cfg := at(s.URL(), config([]string{"clocks-10ms", "contended"}, algorithm(t, key)))
			cfg.Duration = 30 * time.Second // it is over long before
			cfg.Scenarios[0], cfg.Scenarios[1] = cfg.Scenarios[1], cfg.Scenarios[0]
			cfg.Scenarios = append([]scenario.Scenario{scenario.Crash}, cfg.Scenarios...)
			cfg.Step = func(n, _ int, _, _ string) {
				if n == 2 {
					time.AfterFunc(300*time.Millisecond, s.Kill)
				}
			}
			rep, err := Run(t.Context(), cfg)
			if measure.Code(t.Context(), err) != measure.Unavailable {
				t.Fatalf("error %v", err)
			}
			if err == nil || !strings.Contains(err.Error(), "keys may be left: remove those that match berth-lab-") {
				t.Errorf("nobody is told which keys may be left: %v", err)
			}
			if rep.Complete || len(rep.Results) != 1 || rep.Failure == "" {
				t.Errorf("what was found before is lost: %+v", rep)
			}
		})
	}
}

func TestSignalEndsItCleanly(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, key := range []string{"contended", "crash", "pause"} {
		cmd := exec.Command(os.Args[0], "--redis", s.URL(), "--scenario", key, "--duration", "1m")
		cmd.Env = append(os.Environ(), program+"=1")
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Its first line is written when it begins.
		line, err := bufio.NewReader(stderr).ReadString('\n')
		if err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGINT) {
			t.Errorf("%s: exit code %d, want 130", key, code)
		}
		noKeys(t, s)
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--scenario", "nonsense"}, measure.Usage, "clocks-10ms"},
		{[]string{"--scenario", "clocks,pau"}, measure.Usage, `"pau"`},
		{[]string{"--algorithm", "redlock"}, measure.Usage, "basic, fair, underlock, berth"},
		{[]string{"--duration", "1ms"}, measure.Usage, "--duration"},
		{[]string{"--duration", "abc"}, measure.Usage, "--help"},
		{[]string{"extra"}, measure.Usage, "extra"},
		{[]string{"--duration", "2h"}, measure.Usage, "--duration"},
		{[]string{"--poll", "0"}, measure.Usage, "--poll"},
		{[]string{"--embedded", "--redis", "redis://h"}, measure.Usage, "two stores"},
		{[]string{"--redis", "http://u:hunter2@h"}, measure.Usage, "redis://"},
		{[]string{"--redis", "redis+cluster://u:hunter2@h:port"}, measure.Usage, "redis://"},
		{[]string{"--redis", "redis+sentinel://u:hunter2@h:port"}, measure.Usage, "redis://"},
		{[]string{"--redis", "unix:///nowhere/s"}, measure.Unavailable, "redis cannot be used"},
		{[]string{"--html", "/nowhere/lab.html"}, measure.Output, "the page cannot be written"},
	} {
		var out, msg bytes.Buffer
		code := command(tt.args, nil, &out, &msg)
		if code != tt.code || !strings.Contains(msg.String(), tt.want) || strings.Contains(msg.String(), "hunter2") {
			t.Errorf("%v: exit code %d, want %d; %s", tt.args, code, tt.code, msg.String())
		}
		if n := strings.Count(msg.String(), "\n"); n != 1 {
			t.Errorf("%v: %d lines, not one:\n%s", tt.args, n, msg.String())
		}
		if out.Len() > 0 {
			t.Errorf("%v: printed %q", tt.args, out.String())
		}
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "lab.html")
	var out, msg bytes.Buffer
	args := []string{
		"--scenario", "clocks-1h,holders", "--algorithm", "basic,berth", "--duration", "200ms",
		"--seed", "7", "--json", "--html", file,
	}
	if code := command(args, nil, &out, &msg); code != measure.OK {
		t.Fatalf("exit code %d: %s", code, msg.String())
	}
	var rep struct {
		Command string
		Seed    int
		Results []map[string]any
	}
	if err := json.Unmarshal(out.Bytes(), &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Results) != 4 || rep.Seed != 7 || !strings.Contains(rep.Command, "--scenario=clocks-1h,holders") {
		t.Errorf("JSON: %+v", rep)
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "http://", "https://", "src=", "@import", "url(", "<link"} {
		if bytes.Contains(page, []byte(bad)) {
			t.Errorf("the page is not self-contained: it has %s", bad)
		}
	}
	for _, want := range []string{"<svg", "prefers-color-scheme: dark", "Clocks 1 h apart"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("the page has no %s", want)
		}
	}
}

func TestStartsARedisServerWhereThereIsOne(t *testing.T) {
	cfg := config(nil)
	cfg.Embedded = false
	done, err := cfg.open()
	if err != nil {
		t.Fatal(err)
	}
	done()
	if cfg.Embedded || !strings.HasPrefix(cfg.URL, "unix://") {
		t.Errorf("embedded %v, URL %q", cfg.Embedded, cfg.URL)
	}
	t.Setenv("PATH", "")
	t.Setenv("BERTH_REDIS_SERVER", "")
	cfg = config(nil)
	cfg.Embedded = false
	if done, err = cfg.open(); err != nil {
		t.Fatal(err)
	}
	done()
	if !cfg.Embedded {
		t.Errorf("without a redis-server it ran on %q", cfg.URL)
	}
}

// A Redis that only the environment names is not put under load.
func TestEnvironmentIsNotUsed(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	t.Setenv("BERTH_REDIS_URL", s.URL())
	t.Setenv("REDIS_URL", s.URL())
	before, err := measure.Ask(t.Context(), rdb)
	if err != nil {
		t.Fatal(err)
	}
	var out, msg bytes.Buffer
	if code := command([]string{"--scenario", "release", "--algorithm", "berth", "--duration", "100ms", "--embedded"}, nil, &out, &msg); code != measure.OK {
		t.Fatalf("exit code %d: %s", code, msg.String())
	}
	after, err := measure.Ask(t.Context(), rdb)
	if used := after.Since(before); err != nil || len(used.Commands) > 0 {
		t.Errorf("it was used: %+v (%v)", used.Commands, err)
	}
	if !strings.Contains(out.String(), "the embedded store") {
		t.Errorf("it does not say where it ran: %s", out.String())
	}
}
