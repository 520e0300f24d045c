package peer

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/bench/internal/redisd"
)

// The keys of the floors.
const (
	setDelKey      = "setdel"
	setDelAutoKey  = "setdel-auto"
	TrivialKey     = "trivial"
	TrivialAutoKey = "trivial-auto"
	TokensKey      = "tokens"
	PublishKey     = "publish"
)

// trivial is a script with one key and three arguments that does almost nothing.
var trivial = redis.NewScript(`return redis.call('EXISTS', KEYS[1])`)

func floors() []*Peer {
	setdel := []string{"set", "del"}
	return []*Peer{
		{
			Key: setDelKey, Title: "SET+DEL", Kind: Floor, Sent: setdel, Connect: connectPair(plain, setDel),
			About: "go-redis; each goroutine has a key of its own",
		},
		{
			Key: setDelAutoKey, Title: "SET+DEL, AutoPipeline", Kind: Floor, Sent: setdel, Connect: connectPair(auto, setDel),
			About: "go-redis AutoPipeline with its default options; each goroutine has a key of its own",
		},
		{
			Key: TrivialKey, Title: "trivial script twice", Kind: Floor, Sent: scripts, Connect: connectPair(plain, trivialTwice),
			About: "go-redis; EXISTS in a script of one key and three arguments",
		},
		{
			Key: TrivialAutoKey, Title: "trivial script twice, AutoPipeline", Kind: Floor, Sent: scripts,
			Connect: connectPair(auto, trivialTwice), About: "the same through go-redis AutoPipeline",
		},
		{
			Key: TokensKey, Title: "token list", Kind: Floor, Queues: true, Sent: []string{"blpop", "rpush"}, Connect: connectTokens,
			About: "BLPOP takes a token, RPUSH gives it back; a crashed holder's token is gone for ever",
		},
		{
			Key: PublishKey, Title: "publish from a script", Kind: Floor, Open: openPublish,
			About: "a script publishes to a subscriber with ReceiveMessage in a goroutine of its own: hand-off only",
		},
	}
}

// step is the first or the second command of a pair.
type step func(ctx context.Context, rdb commander, key string) error

// commander is the interface that plain and pipelining clients of go-redis share.
type commander interface {
	redis.Scripter
	Set(ctx context.Context, key string, value any, expiration time.Duration) *redis.StatusCmd
	Del(ctx context.Context, keys ...string) *redis.IntCmd
}

func setDel() (acquire, release step) {
	return func(ctx context.Context, rdb commander, key string) error {
			return rdb.Set(ctx, key, "v", lockTTL).Err()
		},
		func(ctx context.Context, rdb commander, key string) error { return rdb.Del(ctx, key).Err() }
}

func trivialTwice() (acquire, release step) {
	run := func(ctx context.Context, rdb commander, key string) error {
		return trivial.Run(ctx, rdb, []string{key}, "1", "2", "3").Err()
	}
	return run, run
}

func plain(rdb *redis.Client) (commander, error) { return rdb, nil }
func auto(rdb *redis.Client) (commander, error)  { return rdb.AutoPipeline() }

// connectPair returns a Connect whose clients acquire and release with one command each.
func connectPair(via func(*redis.Client) (commander, error), steps func() (step, step)) func(url, prefix string) (*Client, error) {
	first, second := steps()
	return func(url, prefix string) (*Client, error) {
		rdb := redisd.Client(url)
		c, err := via(rdb)
		if err != nil {
			_ = rdb.Close()
			return nil, err
		}
		return &Client{
			Close: func() { _ = rdb.Close() },
			Semaphore: func(name string, _ int) (Acquire, error) {
				key := prefix + name
				return func(context.Context) (Release, error) {
					ctx := context.Background()
					if err := first(ctx, c, key); err != nil {
						return nil, err
					}
					return func() error { return second(ctx, c, key) }, nil
				}, nil
			},
		}, nil
	}
}

// fillTokens creates the list of tokens if it does not exist yet.
var fillTokens = redis.NewScript(`
if redis.call('SETNX', KEYS[2], '1') == 1 then
  for _ = 1, tonumber(ARGV[1]) do redis.call('RPUSH', KEYS[1], 't') end
end
return 1`)

func connectTokens(url, prefix string) (*Client, error) {
	rdb := redisd.Client(url)
	return &Client{
		Close: func() { _ = rdb.Close() },
		Semaphore: func(name string, limit int) (Acquire, error) {
			key := prefix + name
			if err := fillTokens.Run(context.Background(), rdb, []string{key, key + ":made"}, limit).Err(); err != nil {
				return nil, err
			}
			return func(ctx context.Context) (Release, error) { return takeToken(ctx, rdb, key) }, nil
		},
	}, nil
}

// takeToken waits for a token. The end of a context cannot cancel a BLPOP, so each lasts
// for a second at most, and a token that comes too late is put back.
func takeToken(ctx context.Context, rdb *redis.Client, key string) (Release, error) {
	release := func() error { return rdb.RPush(context.Background(), key, "t").Err() }
	for {
		err := rdb.BLPop(context.Background(), time.Second, key).Err()
		switch {
		case ctx.Err() != nil && err == nil:
			return nil, errors.Join(ctx.Err(), release())
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			return release, nil
		case !errors.Is(err, redis.Nil):
			return nil, err
		}
	}
}
