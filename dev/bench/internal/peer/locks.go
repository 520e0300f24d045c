package peer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/berth-go/berth/dev/internal/measure"
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
			Key: "redislock", Title: "bsm/redislock", Kind: Lock, Queues: true, Poll: redisPoll, Sent: scripts, Connect: onGoRedis(redislocks),
			About: "a lock; TTL 30 s, no renewal, LinearBackoff(100 ms) as in its README",
		},
		{
			Key: "redsync", Title: "go-redsync/redsync", Kind: Lock, Queues: true, Poll: redsyncPoll,
			Sent: append([]string{"set"}, scripts...), Connect: onGoRedis(redsyncs),
			About: "a lock; one pool, default options: expiry 8 s, retries after 50 to 250 ms; asked again when its 32 tries are over",
		},
		{
			Key: "rueidislock", Title: "rueidislock", Kind: Lock, Queues: true, Sent: scripts, Connect: connectRueidislock,
			About: "a lock on rueidis, whose client pipelines; one key and no messages of its own changes, as its README advises for one server; validity 5 s, told by client-side caching",
		},
	}
}

func redislocks(rdb *redis.Client) (semaphores, error) {
	locker := redislock.New(rdb)
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(redisPoll)}
	refused := func(err error) bool { return errors.Is(err, redislock.ErrNotObtained) }
	return func(key string, _ Shape) (Acquire, error) {
		return repeated(refused, func(ctx context.Context) (Release, error) {
			lock, err := locker.Obtain(ctx, key, lockTTL, options)
			return func() error { return lock.Release(context.Background()) }, err
		}), nil
	}, nil
}

func redsyncs(rdb *redis.Client) (semaphores, error) {
	rs := redsync.New(goredis.NewPool(rdb))
	refused := func(err error) bool {
		_, taken := errors.AsType[*redsync.ErrTaken](err)
		return taken || errors.Is(err, redsync.ErrFailed)
	}
	return func(key string, _ Shape) (Acquire, error) {
		return repeated(refused, func(ctx context.Context) (Release, error) {
			mutex := rs.NewMutex(key)
			return func() error {
				_, err := mutex.UnlockContext(context.Background())
				return err
			}, mutex.LockContext(ctx)
		}), nil
	}, nil
}

// repeated returns an Acquire that tries again as long as it is refused.
func repeated(refused func(error) bool, try Acquire) Acquire {
	return func(ctx context.Context) (Release, error) {
		for {
			release, err := try(ctx)
			switch {
			case err == nil:
				return release, nil
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case !refused(err):
				return nil, err
			}
		}
	}
}

func connectRueidislock(url, prefix string) (*Client, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, measure.ErrURL
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: option, KeyPrefix: prefix,
		KeyMajority: 1, NoLoopTracking: true, // what its README advises for one server of today
		// An attempt that takes longer deletes the key of its own, which is not told to itself, and
		// then waits for ever for a message of that key. The default is 20 ms.
		TryNextAfter: time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &Client{
		Close: locker.Close,
		Semaphore: func(name string, _ Shape) (Acquire, error) {
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
