package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/cmd/berth/internal/connect"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/lab/algo"
	"github.com/berth-go/berth/cmd/berth/internal/lab/report"
	"github.com/berth-go/berth/cmd/berth/internal/lab/scene"
	"github.com/berth-go/berth/cmd/berth/internal/local"
)

// Config is one run of the laboratory.
type Config struct {
	Scenarios  []scene.Scenario
	Algorithms []algo.Algorithm
	Duration   time.Duration
	Poll       time.Duration
	Seed       uint64
	// Target and URL are where to run; without, on an embedded store.
	Target   *connect.Target
	URL      string
	Process  func() *exec.Cmd
	Progress Progress
}

// Progress hears what the laboratory does.
type Progress interface {
	// Step says what begins: number n of all.
	Step(n, all int, scenario, algorithm string)
	// Done is the end.
	Done()
}

// Run runs every algorithm through every scenario. When it fails in the middle,
// the report has what was found until then. It starts processes, and so it must
// run on the main goroutine.
func Run(ctx context.Context, cfg Config) (*report.Report, error) {
	began := time.Now()
	env, done, err := cfg.env()
	if err != nil {
		return nil, err
	}
	defer done()
	defer cfg.Progress.Done()
	rdb := env.Connect()
	defer rdb.Close()
	rep := &report.Report{
		At: began.UTC().Truncate(time.Second), Embedded: env.Embedded, CPUs: runtime.NumCPU(),
		Seed: cfg.Seed, DurationMS: cfg.Duration.Milliseconds(),
		PollMS: float64(cfg.Poll.Microseconds()) / 1000, Scenarios: cfg.Scenarios,
	}
	if rep.Store, err = storeName(ctx, rdb, env.Embedded); err != nil {
		return nil, exit.Errorf(exit.Unavailable, "redis cannot be used: %w", err)
	}
	err = cfg.runAll(ctx, env, rdb, rep)
	rep.TookSecond = time.Since(began).Seconds()
	rep.Complete = err == nil
	if err != nil {
		rep.Failure = err.Error()
	}
	return rep, err
}

func (cfg Config) runAll(ctx context.Context, env *scene.Env, rdb redis.UniversalClient, rep *report.Report) error {
	ctx, stop := watch(ctx, rdb)
	defer stop()
	all, n := len(cfg.Scenarios)*len(cfg.Algorithms), 0
	for _, sc := range cfg.Scenarios {
		for _, alg := range cfg.Algorithms {
			n++
			cfg.Progress.Step(n, all, sc.Title, alg.Title)
			res, err := sc.Run(ctx, env, alg)
			if err != nil {
				return failure(ctx, err, n-1, all)
			}
			rep.Results = append(rep.Results, res)
		}
	}
	return nil
}

// failure says why it did not go on, and how far it got.
func failure(ctx context.Context, err error, done, all int) error {
	if cause := context.Cause(ctx); errors.Is(cause, errGone) {
		if left, ok := errors.AsType[*scene.LeftoverError](err); ok {
			cause = fmt.Errorf("%w; %w", cause, left)
		}
		err = cause
	}
	code := exit.Of(err)
	if errors.Is(err, errGone) {
		code = exit.Unavailable
	}
	return exit.Errorf(code, "after %d of %d: %w", done, all, err)
}

// env makes the surroundings of the scenarios.
func (cfg Config) env() (*scene.Env, func(), error) {
	env := &scene.Env{
		Prefix: "berth-lab-" + token(), Process: cfg.Process,
		Duration: cfg.Duration, Seed: cfg.Seed, Poll: cfg.Poll,
	}
	if cfg.Target != nil {
		env.URL, env.Connect = cfg.URL, cfg.Target.Client
		return env, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "berth-lab-")
	if err != nil {
		return nil, nil, err
	}
	socket := filepath.Join(dir, "s")
	server, err := local.Listen(socket)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	env.Embedded = true
	env.URL = "unix://" + socket
	target, err := connect.Parse(env.URL)
	if err != nil {
		server.Close()
		_ = os.RemoveAll(dir)
		return nil, nil, fmt.Errorf("%w (set TMPDIR to a directory with a plain name)", err)
	}
	env.Connect = target.Client
	return env, func() {
		server.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

func token() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // documented never to fail
	return hex.EncodeToString(b[:])
}

// storeName asks what it is that runs there, and whether it answers at all.
func storeName(ctx context.Context, rdb redis.UniversalClient, embedded bool) (string, error) {
	if err := rdb.Ping(ctx).Err(); err != nil {
		return "", err
	}
	if embedded {
		return "the embedded store", nil
	}
	info, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		return "a Redis", nil // it need not tell its version
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); ok {
			return "Redis " + v, nil
		}
	}
	return "a Redis", nil
}

const (
	watchEvery   = 250 * time.Millisecond
	watchTimeout = 3 * time.Second
)

// errGone says that Redis has gone in the middle of the run.
var errGone = errors.New("redis does not answer any more")

// watch returns a context that ends with errGone when Redis stops answering:
// some algorithms would patiently wait for it to come back.
func watch(ctx context.Context, rdb redis.UniversalClient) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	tick := time.NewTicker(watchEvery)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := ping(ctx, rdb); err != nil && ctx.Err() == nil {
					cancel(fmt.Errorf("%w: %w", errGone, err))
				}
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// ping asks twice: one connection may have been cut.
func ping(ctx context.Context, rdb redis.UniversalClient) error {
	var err error
	for range 2 {
		once, cancel := context.WithTimeout(ctx, watchTimeout)
		err = rdb.Ping(once).Err()
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}
