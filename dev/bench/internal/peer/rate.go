package peer

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	limiterredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/dev/bench/internal/redisd"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/internal/child"
)

// Flow says how many clients and workers share one rate.
type Flow struct {
	Name    string
	Clients int // each with its own connections
	Workers int // goroutines, spread evenly over the clients
	Rate    int // grants in a second
}

// Grant is when something was let through: not before From and not after To, by one clock of the
// contestant's choice.
type Grant struct{ From, To time.Duration }

// Flowed is what came of a Flow.
type Flowed struct {
	Grants []Grant
	Waits  []time.Duration
	Each   []int // grants of each worker
}

// Rater drives a contestant that limits a rate, in one Flow.
type Rater interface {
	// Run lets every worker ask again and again, for a while.
	Run(ctx context.Context, most time.Duration) (*Flowed, error)
	// Close removes what the contestant has stored.
	Close()
}

// raters returns the contestants that limit nothing but a rate.
func raters() []*Peer {
	return []*Peer{
		{
			Key: "redis_rate", Title: "go-redis/redis_rate", Kind: Rate, Sent: scripts, Rater: onRates(redisRate),
			About: "GCRA, PerSecond(n), whose burst is n; a refused request asks again after RetryAfter",
		},
		{
			Key: "limiter", Title: "ulule/limiter", Kind: Rate, Sent: scripts, Rater: onRates(ululeLimiter),
			About: "fixed windows, default options of its Redis store; a refused request asks again at Reset, which is in whole seconds, or after 10 ms if that is now",
		},
		{
			Key: "bottleneck", Title: "npm Bottleneck", Kind: Rate, Sent: scripts, Rater: openBottleneck,
			About: "clustered on ioredis, all its clients in one process of node; minTime 1000/n ms, because its README advises against reservoirs " +
				"of less than 5 s in a cluster",
		},
	}
}

// let returns when a request was let through. It waits until then, or for ctx.
type let func(ctx context.Context) (Grant, error)

// rate is how one worker asks for a key's rate, and what forgets the key.
type rate struct {
	let    let
	forget func(ctx context.Context) error // nil: the run removes its keys
}

// onRates returns the Rater of a contestant on go-redis. The times of its grants are those of
// the request that was let through.
func onRates(open func(rdb *redis.Client, key string, n int) (rate, error)) func(context.Context, string, string, Flow) (Rater, error) {
	return func(_ context.Context, url, prefix string, f Flow) (Rater, error) {
		g := &goRater{flow: f}
		for range f.Clients {
			rdb := redisd.Client(url)
			g.closers = append(g.closers, func() { _ = rdb.Close() })
			r, err := open(rdb, prefix+f.Name, f.Rate)
			if err != nil {
				g.Close()
				return nil, err
			}
			g.rates = append(g.rates, r)
		}
		return g, nil
	}
}

// began is the beginning of the clock of the contestants in this process.
var began = time.Now()

// polled asks until it is not refused. ask returns in how long to ask again.
func polled(ask func(ctx context.Context) (again time.Duration, ok bool, err error)) let {
	return func(ctx context.Context) (Grant, error) {
		for {
			from := time.Since(began)
			again, ok, err := ask(ctx)
			if err != nil || ok {
				return Grant{from, time.Since(began)}, err
			}
			if err := measure.Pause(ctx, again); err != nil {
				return Grant{}, err
			}
		}
	}
}

func redisRate(rdb *redis.Client, key string, n int) (rate, error) {
	l := redis_rate.NewLimiter(rdb)
	return rate{
		forget: func(ctx context.Context) error { return l.Reset(ctx, key) }, // its keys have a prefix of its own
		let: polled(func(ctx context.Context) (time.Duration, bool, error) {
			res, err := l.Allow(ctx, key, redis_rate.PerSecond(n))
			if err != nil {
				return 0, false, err
			}
			return res.RetryAfter, res.Allowed > 0, nil
		}),
	}, nil
}

func ululeLimiter(rdb *redis.Client, key string, n int) (rate, error) {
	store, err := limiterredis.NewStoreWithOptions(rdb, limiter.StoreOptions{Prefix: key, MaxRetry: limiter.DefaultMaxRetry})
	if err != nil {
		return rate{}, err
	}
	l := limiter.New(store, limiter.Rate{Period: time.Second, Limit: int64(n)})
	return rate{let: polled(func(ctx context.Context) (time.Duration, bool, error) {
		res, err := l.Get(ctx, "all")
		return max(time.Until(time.Unix(res.Reset, 0)), 10*time.Millisecond), !res.Reached, err
	})}, nil
}

// berthRate returns berth's Rater. A lease's token tells when the server granted it.
func berthRate(_ context.Context, url, prefix string, f Flow) (Rater, error) {
	g := &goRater{flow: f}
	for range f.Clients {
		client, closeAll, err := Dial(url, prefix)
		if err != nil {
			g.Close()
			return nil, err
		}
		g.closers = append(g.closers, closeAll)
		sem, err := client.Semaphore(f.Name, berth.NoLimit, berth.Rate(f.Rate, time.Second))
		if err != nil {
			g.Close()
			return nil, err
		}
		g.rates = append(g.rates, rate{let: func(ctx context.Context) (Grant, error) {
			lease, err := sem.Acquire(ctx)
			if err != nil {
				return Grant{}, err
			}
			at := time.Duration(lease.Token()/1000) * time.Millisecond
			return Grant{at, at}, lease.Release()
		}})
	}
	return g, nil
}

// goRater drives a contestant that is written in Go.
type goRater struct {
	flow    Flow
	rates   []rate // of the clients
	closers []func()
}

// Close implements Rater.
func (g *goRater) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if len(g.rates) > 0 && g.rates[0].forget != nil {
		_ = g.rates[0].forget(ctx)
	}
	for _, f := range g.closers {
		f()
	}
}

// Run implements Rater.
func (g *goRater) Run(ctx context.Context, most time.Duration) (*Flowed, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	out := &Flowed{Each: make([]int, g.flow.Workers)}
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for w := range g.flow.Workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				grant, err := g.rates[w%len(g.rates)].let(ctx)
				waited := time.Since(asked)
				mu.Lock()
				switch {
				case err == nil:
					out.Grants, out.Waits = append(out.Grants, grant), append(out.Waits, waited)
					out.Each[w]++
				case ctx.Err() == nil: // the end of the load is not an error
					errs = append(errs, err)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

// bottleneck is the process in which npm's Bottleneck runs.
type bottleneck struct{ *child.Process }

func openBottleneck(ctx context.Context, url, prefix string, f Flow) (Rater, error) {
	c, err := child.Start(exec.Command("node", filepath.Join(npmDir(), "driver.js")))
	if err != nil {
		return nil, err
	}
	if err := c.Ask(ctx, map[string]any{"op": "rate", "url": url, "id": prefix + f.Name, "flow": f}, &struct{}{}); err != nil {
		c.Kill()
		return nil, err
	}
	return bottleneck{c}, nil
}

// Run implements Rater.
func (b bottleneck) Run(ctx context.Context, most time.Duration) (*Flowed, error) {
	out := &Flowed{}
	err := b.Ask(ctx, map[string]any{"op": "run", "most": most}, out)
	return out, err
}

// Close implements Rater.
func (b bottleneck) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = b.Ask(ctx, map[string]any{"op": "forget"}, &struct{}{})
	b.Kill()
}
