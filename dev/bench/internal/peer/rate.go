package peer

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	limiterredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/berth-go/berth/dev/internal/measure"
)

// raters returns the contestants that limit nothing but a rate.
func raters() []*Peer {
	return []*Peer{
		{
			Key: "redis_rate", Title: "go-redis/redis_rate", Kind: Rate, Sent: scripts, Connect: onGoRedis(redisRate),
			About: "GCRA, PerSecond(n), whose burst is n; a refused request asks again after RetryAfter",
		},
		{
			Key: "limiter", Title: "ulule/limiter", Kind: Rate, Sent: scripts, Connect: onGoRedis(ululeLimiter),
			About: "fixed windows, default options of its Redis store; a refused request asks again at Reset, which is in whole seconds, or after 10 ms if that is now",
		},
		{
			Key: "bottleneck", Title: "npm Bottleneck", Kind: Rate, Sent: scripts, Open: openNode,
			About: "clustered on ioredis, all its clients in one process of node; minTime 1000/n ms, because its README advises against reservoirs " +
				"of less than 5 s in a cluster",
		},
	}
}

// began is the beginning of the clock of the contestants in this process.
var began = time.Now()

// polled returns an Acquire that asks until it is not refused. ask returns in how long to ask again.
// The times of a grant are those of the request that was let through.
func polled(s Shape, ask func(ctx context.Context) (again time.Duration, ok bool, err error)) Acquire {
	return func(ctx context.Context) (Release, error) {
		for {
			from := time.Since(began)
			again, ok, err := ask(ctx)
			switch {
			case err != nil:
				return nil, err
			case ok:
				s.Granted(Grant{from, time.Since(began)})
				return func() error { return nil }, nil
			}
			if err := measure.Pause(ctx, again); err != nil {
				return nil, err
			}
		}
	}
}

func redisRate(rdb *redis.Client) (semaphores, error) {
	l := redis_rate.NewLimiter(rdb)
	return func(key string, s Shape) (Acquire, error) {
		return polled(s, func(ctx context.Context) (time.Duration, bool, error) {
			res, err := l.Allow(ctx, key, redis_rate.PerSecond(s.Rate))
			if err != nil {
				return 0, false, err
			}
			return res.RetryAfter, res.Allowed > 0, nil
		}), nil
	}, nil
}

func ululeLimiter(rdb *redis.Client) (semaphores, error) {
	return func(key string, s Shape) (Acquire, error) {
		store, err := limiterredis.NewStoreWithOptions(rdb, limiter.StoreOptions{Prefix: key, MaxRetry: limiter.DefaultMaxRetry})
		if err != nil {
			return nil, err
		}
		l := limiter.New(store, limiter.Rate{Period: time.Second, Limit: int64(s.Rate)})
		return polled(s, func(ctx context.Context) (time.Duration, bool, error) {
			res, err := l.Get(ctx, "all")
			return max(time.Until(time.Unix(res.Reset, 0)), 10*time.Millisecond), !res.Reached, err
		}), nil
	}, nil
}
