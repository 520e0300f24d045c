package testenv

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// Bench is a server of its own for a benchmark, reached by TCP as in production.
type Bench struct {
	Redis  *redis.Client
	Prefix string
}

// NewBench starts a server, which is ended with the benchmark.
func NewBench(b *testing.B) *Bench {
	b.Helper()
	s := redistest.Start(b, redistest.WithTCP())
	rdb := s.Client(b, func(o *redis.Options) {
		o.Network, o.Addr, o.PoolSize, o.Dialer = "tcp", s.Addr(), 300, nil
	})
	return &Bench{Redis: rdb, Prefix: s.Prefix(b)}
}

// Client returns a client of its own: it shares nothing with others but the
// connection pool, so its operations travel alone.
func (e *Bench) Client(b *testing.B) *berth.Client {
	b.Helper()
	c, err := berth.New(e.Redis, berth.Prefix(e.Prefix))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// Inspect returns an Inspector of all its semaphores.
func (e *Bench) Inspect(b *testing.B) *berthadmin.Inspector {
	b.Helper()
	in, err := berthadmin.New(e.Redis, berthadmin.Options{Prefix: e.Prefix})
	if err != nil {
		b.Fatal(err)
	}
	return in
}

// Semaphore returns a semaphore of a client of its own.
func (e *Bench) Semaphore(b *testing.B, name string, limit int) *berth.Semaphore {
	b.Helper()
	s, err := e.Client(b).Semaphore(name, limit)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// Spread runs f b.N times on n goroutines, each of which is told its number.
func Spread(b *testing.B, n int, f func(worker int)) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for w := range n {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				f(w)
			}
		})
	}
	wg.Wait()
}
