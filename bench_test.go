package berth_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/quantile"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// The benchmarks measure berth beside the least that Redis could do, in the same
// run: what counts is the ratio. dev/bench/README.md tells how to read them.

// trivial is a script with one key and three arguments that does next to nothing.
var trivial = redis.NewScript(`return redis.call('EXISTS', KEYS[1])`)

func semaphore(b *testing.B, c *berth.Client, name string, limit int) *berth.Semaphore {
	b.Helper()
	s, err := c.Semaphore(name, limit)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func pair(b *testing.B, s *berth.Semaphore, hold time.Duration) {
	lease, err := s.Acquire(b.Context())
	if err != nil {
		b.Error(err)
		return
	}
	if hold > 0 {
		<-time.After(hold)
	}
	if err := lease.Release(); err != nil {
		b.Error(err)
	}
}

// BenchmarkPair is one goroutine's acquire and release, beside two trivial
// scripts and SET+DEL.
func BenchmarkPair(b *testing.B) {
	e := testenv.NewBench(b)
	ctx := context.Background()
	b.Run("setdel", func(b *testing.B) {
		testenv.Spread(b, 1, func(int) {
			e.Redis.Set(ctx, "k", "v", 0)
			e.Redis.Del(ctx, "k")
		})
	})
	b.Run("trivial", func(b *testing.B) { testenv.Spread(b, 1, func(int) { trivialTwice(e) }) })
	b.Run("berth", func(b *testing.B) {
		s := e.Semaphore(b, "pair", 5)
		pair(b, s, 0)
		testenv.Spread(b, 1, func(int) { pair(b, s, 0) })
	})
	b.Run("endless", func(b *testing.B) { // with a context that cannot end
		s := e.Semaphore(b, "endless", 5)
		testenv.Spread(b, 1, func(int) {
			lease, err := s.Acquire(context.WithoutCancel(b.Context()))
			if err != nil {
				b.Error(err)
				return
			}
			_ = lease.Release()
		})
	})
}

func trivialTwice(e *testenv.Bench) {
	for range 2 {
		trivial.Run(context.Background(), e.Redis, []string{"k"}, 1, 2, 3)
	}
}

// BenchmarkGroupCommit is 64 goroutines on one semaphore that has room for all:
// with one client, whose operations travel together, and with a client each.
func BenchmarkGroupCommit(b *testing.B) {
	const workers = 64
	e := testenv.NewBench(b)
	b.Run("trivial", func(b *testing.B) { testenv.Spread(b, workers, func(int) { trivialTwice(e) }) })
	b.Run("without", func(b *testing.B) {
		sems := make([]*berth.Semaphore, workers)
		for i := range sems {
			sems[i] = e.Semaphore(b, "room", 1000)
			pair(b, sems[i], 0)
		}
		testenv.Spread(b, workers, func(w int) { pair(b, sems[w], 0) })
	})
	b.Run("with", func(b *testing.B) {
		s := e.Semaphore(b, "room", 1000)
		pair(b, s, 0)
		testenv.Spread(b, workers, func(int) { pair(b, s, 0) })
	})
}

// BenchmarkHot is 256 goroutines on one semaphore that has room for all, in one
// client, beside SET and DEL through a pipeline that fills by itself.
func BenchmarkHot(b *testing.B) {
	const workers = 256
	e := testenv.NewBench(b)
	b.Run("pipelined", func(b *testing.B) { pipelined(b, e, workers) })
	b.Run("berth", func(b *testing.B) {
		s := e.Semaphore(b, "hot", 1000)
		pair(b, s, 0)
		testenv.Spread(b, workers, func(int) { pair(b, s, 0) })
	})
}

// pipelined is the most that go-redis can do: every goroutine sets and deletes a
// key of its own, through a pipeline that fills by itself.
func pipelined(b *testing.B, e *testenv.Bench, workers int) {
	ctx := context.Background()
	pipe, err := e.Redis.AutoPipeline()
	if err != nil {
		b.Fatal(err)
	}
	testenv.Spread(b, workers, func(w int) {
		name := "pipelined" + strconv.Itoa(w)
		pipe.Set(ctx, name, "v", 0)
		pipe.Del(ctx, name)
	})
}

// BenchmarkSpread is 256 goroutines on as many semaphores, in one client, beside
// SET and DEL through a pipeline that fills by itself.
func BenchmarkSpread(b *testing.B) {
	const workers = 256
	e := testenv.NewBench(b)
	b.Run("pipelined", func(b *testing.B) { pipelined(b, e, workers) })
	b.Run("berth", func(b *testing.B) {
		c := e.Client(b)
		sems := make([]*berth.Semaphore, workers)
		for i := range sems {
			sems[i] = semaphore(b, c, fmt.Sprint("spread", i), 1)
		}
		testenv.Spread(b, workers, func(w int) { pair(b, sems[w], 0) })
	})
}

// BenchmarkContended is 64 waiters in 8 clients for 5 permits that are held for
// a millisecond each. It reports the server's commands for each acquire.
func BenchmarkContended(b *testing.B) {
	e := testenv.NewBench(b)
	sems := make([]*berth.Semaphore, 8)
	for i := range sems {
		sems[i] = e.Semaphore(b, "crowd", 5)
		pair(b, sems[i], 0)
	}
	e.Redis.ConfigResetStat(context.Background())
	testenv.Spread(b, 64, func(w int) { pair(b, sems[w%8], time.Millisecond) })
	b.StopTimer()
	b.ReportMetric(float64(calls(b, e))/float64(b.N), "commands/op")
}

// calls returns how many scripts the server has run.
func calls(b *testing.B, e *testenv.Bench) int {
	b.Helper()
	var calls int
	stat := e.Redis.InfoMap(context.Background(), "commandstats").Val()["Commandstats"]["cmdstat_evalsha"]
	if _, err := fmt.Sscanf(stat, "calls=%d,", &calls); err != nil {
		b.Fatalf("%q: %v", stat, err)
	}
	return calls
}

// BenchmarkHandoff is the time from a release to the return of the waiter, in
// another client, that gets the permit; beside a bare publish from a script to a
// subscriber. Both pause between rounds in the same way, for round trips that
// follow each other closely are much faster than those that come alone.
func BenchmarkHandoff(b *testing.B) {
	e := testenv.NewBench(b)
	b.Run("publish", func(b *testing.B) { publish(b, e) })
	b.Run("berth", func(b *testing.B) { handoff(b, e) })
}

const pause = 3 * time.Millisecond

func publish(b *testing.B, e *testenv.Bench) {
	ctx := context.Background()
	script := redis.NewScript(`return redis.call('PUBLISH', KEYS[1], ARGV[1])`)
	sub := e.Redis.Subscribe(ctx, "floor")
	defer func() { _ = sub.Close() }()
	if _, err := sub.Receive(ctx); err != nil {
		b.Fatal(err)
	}
	got := make(chan time.Time)
	go func() {
		defer close(got)
		for {
			if _, err := sub.ReceiveMessage(ctx); err != nil {
				return
			}
			got <- time.Now()
		}
	}()
	var took []time.Duration
	for b.Loop() {
		<-time.After(pause)
		start := time.Now()
		go script.Run(ctx, e.Redis, []string{"floor"}, "m")
		took = append(took, (<-got).Sub(start))
	}
	percentiles(b, took)
}

func handoff(b *testing.B, e *testenv.Bench) {
	ctx := context.Background()
	sems := []*berth.Semaphore{e.Semaphore(b, "baton", 1), e.Semaphore(b, "baton", 1)}
	lease, err := sems[0].Acquire(ctx)
	if err != nil {
		b.Fatal(err)
	}
	type grant struct {
		lease *berth.Lease
		at    time.Time
	}
	var took []time.Duration
	for i := 1; b.Loop(); i++ {
		queued, got := make(chan struct{}), make(chan grant)
		go func() {
			l, err := sems[i%2].Acquire(ctx, berth.OnQueued(func(berth.Place) { close(queued) }))
			if err != nil {
				b.Error(err)
			}
			got <- grant{l, time.Now()}
		}()
		<-queued
		<-time.After(pause)
		start := time.Now()
		old := lease
		go old.Release()
		g := <-got
		took = append(took, g.at.Sub(start))
		lease = g.lease
	}
	_ = lease.Release()
	percentiles(b, took)
}

func percentiles(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(quantile.Of(took, 0.5).Microseconds()), "p50-us")
	b.ReportMetric(float64(quantile.Of(took, 0.99).Microseconds()), "p99-us")
}
