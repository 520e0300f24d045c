package peer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/berth-go/berth/bench/internal/redisd"
	"github.com/berth-go/berth/internal/measure"
)

// scripts are the commands that run scripts.
var scripts = []string{"eval", "evalsha"}

const (
	lockTTL     = 30 * time.Second // berth's default
	redisPoll   = 100 * time.Millisecond
	redsyncPoll = 250 * time.Millisecond
)

func locks() []*Peer {
	return []*Peer{
		{
			Key: "redislock", Title: "bsm/redislock", Kind: Lock, Queues: true, Poll: redisPoll, Sent: scripts, Connect: connectRedislock,
			About: "a lock; TTL 30 s, no renewal, LinearBackoff(100 ms) as in its README",
		},
		{
			Key: "redsync", Title: "go-redsync/redsync", Kind: Lock, Queues: true, Poll: redsyncPoll,
			Sent: append([]string{"set"}, scripts...), Connect: connectRedsync,
			About: "a lock; one pool, default options: expiry 8 s, retries after 50 to 250 ms; asked again when its 32 tries are over",
		},
		{
			Key: "rueidislock", Title: "rueidislock", Kind: Lock, Queues: true, Sent: scripts, Connect: connectRueidislock,
			About: "a lock on rueidis, whose client pipelines; default options: 3 keys of which 2 must be had, validity 5 s, told by client-side caching",
		},
	}
}

func connectRedislock(url, prefix string) (*Client, error) {
	rdb := redisd.Client(url)
	locker := redislock.New(rdb)
	return &Client{
		Close: func() { _ = rdb.Close() },
		Semaphore: func(name string, _ int) (Acquire, error) {
			return func(ctx context.Context) (Release, error) {
				for {
					lock, err := locker.Obtain(ctx, prefix+name, lockTTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(redisPoll)})
					switch {
					case err == nil:
						return func() error { return lock.Release(context.Background()) }, nil
					case ctx.Err() != nil:
						return nil, ctx.Err()
					case !errors.Is(err, redislock.ErrNotObtained):
						return nil, err
					}
				}
			}, nil
		},
	}, nil
}

func connectRedsync(url, prefix string) (*Client, error) {
	rdb := redisd.Client(url)
	rs := redsync.New(goredis.NewPool(rdb))
	return &Client{
		Close: func() { _ = rdb.Close() },
		Semaphore: func(name string, _ int) (Acquire, error) {
			return func(ctx context.Context) (Release, error) {
				for {
					mutex := rs.NewMutex(prefix + name)
					err := mutex.LockContext(ctx)
					switch {
					case err == nil:
						return func() error {
							_, err := mutex.UnlockContext(context.Background())
							return err
						}, nil
					case ctx.Err() != nil:
						return nil, ctx.Err()
					case !errors.Is(err, redsync.ErrFailed) && !taken(err):
						return nil, err
					}
				}
			}, nil
		},
	}, nil
}

func taken(err error) bool {
	_, ok := errors.AsType[*redsync.ErrTaken](err)
	return ok
}

func connectRueidislock(url, prefix string) (*Client, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, measure.ErrURL
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: option, KeyPrefix: prefix})
	if err != nil {
		return nil, err
	}
	return &Client{
		Close: locker.Close,
		Semaphore: func(name string, _ int) (Acquire, error) {
			return func(ctx context.Context) (Release, error) {
				_, cancel, err := locker.WithContext(ctx, name)
				if err != nil {
					return nil, err
				}
				return func() error { cancel(); return nil }, nil
			}, nil
		},
	}, nil
}

// upTo returns a random duration up to d.
func upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d) //nolint:gosec // a pause, not a secret
}
