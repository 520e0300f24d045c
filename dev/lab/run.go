package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/dev/internal/algo"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/dev/lab/internal/report"
	"github.com/berth-go/berth/dev/lab/internal/stage"
	"github.com/berth-go/berth/internal/testkit/redisserver"
)

// Config configures a run.
type Config struct {
	stage.Env  // without a URL it runs on a redis-server of its own; if Embedded is set, on the embedded store
	Scenarios  []scenario.Scenario
	Algorithms []algo.Algorithm
	// Step is called when number n of all begins.
	Step func(n, all int, scenario, algorithm string)
}

// Run runs every algorithm in every scenario. If it fails midway, the report has the
// results so far.
func Run(ctx context.Context, cfg Config) (*report.Report, error) {
	began := time.Now()
	done, err := cfg.open()
	if err != nil {
		return nil, err
	}
	defer done()
	rdb := cfg.Connect()
	defer rdb.Close()
	rep := &report.Report{
		At: began.UTC().Truncate(time.Second), Embedded: cfg.Embedded, CPUs: runtime.NumCPU(),
		Seed: cfg.Seed, DurationMS: cfg.Duration.Milliseconds(),
		PollMS: float64(cfg.Poll.Microseconds()) / 1000, Scenarios: cfg.Scenarios,
	}
	if err := rdb.Ping(ctx).Err(); err != nil {
		return nil, measure.Errorf(measure.Unavailable, "redis cannot be used: %w", err)
	}
	if rep.Store = "the embedded store"; !cfg.Embedded {
		rep.Store = "Redis " + measure.Version(ctx, rdb)
	}
	err = cfg.runAll(ctx, rdb, rep)
	rep.TookSecond = time.Since(began).Seconds()
	rep.Complete = err == nil
	if err != nil {
		rep.Failure = err.Error()
	}
	return rep, err
}

func (cfg *Config) runAll(ctx context.Context, rdb redis.UniversalClient, rep *report.Report) error {
	ctx, stop := watch(ctx, rdb)
	defer stop()
	all, n := len(cfg.Scenarios)*len(cfg.Algorithms), 0
	for _, sc := range cfg.Scenarios {
		for _, alg := range cfg.Algorithms {
			n++
			cfg.Step(n, all, sc.Title, alg.Title)
			res, err := stage.Run(ctx, &cfg.Env, sc, alg)
			if err != nil {
				return failure(ctx, rdb, fmt.Errorf("after %d of %d: %w", n-1, all, err))
			}
			rep.Results = append(rep.Results, res)
		}
	}
	return nil
}

// failure returns err, or errGone if it failed because Redis does not answer.
func failure(ctx context.Context, rdb redis.UniversalClient, err error) error {
	gone := context.Cause(ctx)
	if ctx.Err() == nil {
		gone = ping(ctx, rdb)
	}
	if errors.Is(gone, errGone) {
		return measure.Errorf(measure.Unavailable, "%w: %w", gone, err)
	}
	return err
}

// open prepares the environment of the scenarios, and returns a function that ends it.
func (cfg *Config) open() (done func(), err error) {
	cfg.Prefix, done = measure.NewPrefix("berth-lab-"), func() {}
	if cfg.URL == "" {
		if done, err = cfg.start(); err != nil {
			return nil, err
		}
	}
	if cfg.Connect, err = stage.Connector(cfg.URL); err != nil {
		return nil, measure.Errorf(measure.Usage, "the URL of --redis cannot be used: %w", err)
	}
	return done, nil
}

// start starts the lab's own store: a redis-server, or the embedded one if that is wanted or there
// is no redis-server on this machine. Both take part in the scenarios through the same commands, but
// the embedded one runs in this process: on a busy machine it is so slow that figures about
// contention say little.
func (cfg *Config) start() (done func(), err error) {
	if !cfg.Embedded {
		server, err := redisserver.Start(redisserver.Config{})
		if err == nil {
			cfg.URL = server.URL()
			return server.Close, nil
		}
		if !errors.Is(err, redisserver.ErrMissing) {
			return nil, measure.Errorf(measure.Unavailable, "a redis-server of the lab's own: %w; --embedded needs none", err)
		}
		cfg.Embedded = true
	}
	store := miniredis.NewMiniRedis()
	store.ClockTTL(true)
	if err := store.Start(); err != nil {
		return nil, err
	}
	cfg.URL = "redis://" + store.Addr()
	return store.Close, nil
}

const (
	watchEvery   = 250 * time.Millisecond
	watchTimeout = 10 * time.Second
)

// errGone says that Redis stopped answering during the run.
var errGone = errors.New("redis does not answer any more")

// watch returns a context that ends with errGone when Redis stops answering:
// some algorithms would patiently wait for it to come back.
func watch(ctx context.Context, rdb redis.UniversalClient) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for measure.Pause(ctx, watchEvery) == nil {
			if err := ping(ctx, rdb); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		watcher.Wait()
	}
}

// ping returns an errGone if Redis does not answer. It tries twice, because one connection
// may have been cut.
func ping(ctx context.Context, rdb redis.UniversalClient) error {
	var err error
	for range 2 {
		once, cancel := context.WithTimeout(ctx, watchTimeout)
		err = rdb.Ping(once).Err()
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%w: %w", errGone, err)
}
