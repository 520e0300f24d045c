package peer

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/dev/bench/internal/redisd"
	"github.com/berth-go/berth/dev/internal/measure"
)

// The keys of the floors.
const (
	setDelKey     = "setdel"
	setDelAutoKey = "setdel-auto"
	TrivialKey    = "trivial"
	TokensKey     = "tokens"
	PublishKey    = "publish"
)

// trivial is a script with one key and three arguments that does almost nothing.
var trivial = redis.NewScript(`return redis.call('EXISTS', KEYS[1])`)

func floors() []*Peer {
	setdel := []string{"set", "del"}
	return []*Peer{
		{
			Key: setDelKey, Title: "SET+DEL", Kind: Floor, Sent: setdel, Connect: commands(plain, set, del),
			About: "go-redis; each goroutine has a key of its own",
		},
		{
			Key: setDelAutoKey, Title: "SET+DEL, AutoPipeline", Kind: Floor, Sent: setdel, Connect: commands(auto, set, del),
			About: "go-redis AutoPipeline with its default options; each goroutine has a key of its own",
		},
		{
			Key: TrivialKey, Title: "trivial script twice", Kind: Floor, Sent: scripts, Connect: commands(plain, runTrivial, runTrivial),
			About: "go-redis; EXISTS in a script of one key and three arguments",
		},
		{
			Key: "trivial-auto", Title: "trivial script twice, AutoPipeline", Kind: Floor, Sent: scripts,
			Connect: commands(auto, runTrivial, runTrivial), About: "the same through go-redis AutoPipeline",
		},
		{
			Key: TokensKey, Title: "token list", Kind: Floor, Queues: true, Sent: []string{"blpop", "rpush"}, Connect: onGoRedis(tokens),
			About: "BLPOP takes a token, RPUSH gives it back; a crashed holder's token is gone for ever",
		},
		{
			Key: PublishKey, Title: "publish from a script", Kind: Floor, Open: openPublish,
			About: "a script publishes to a subscriber with ReceiveMessage in a goroutine of its own: hand-off only",
		},
	}
}

// command is the first or the second command of a pair.
type command func(ctx context.Context, rdb redis.Cmdable, key string) error

func set(ctx context.Context, rdb redis.Cmdable, key string) error {
	return rdb.Set(ctx, key, "v", lockTTL).Err()
}

func del(ctx context.Context, rdb redis.Cmdable, key string) error { return rdb.Del(ctx, key).Err() }

func runTrivial(ctx context.Context, rdb redis.Cmdable, key string) error {
	return trivial.Run(ctx, rdb, []string{key}, "1", "2", "3").Err()
}

func plain(rdb *redis.Client) (redis.Cmdable, error) { return rdb, nil }
func auto(rdb *redis.Client) (redis.Cmdable, error)  { return rdb.AutoPipeline() }

// commands returns a Connect whose clients acquire and release with one command each.
func commands(via func(*redis.Client) (redis.Cmdable, error), first, second command) func(url, prefix string) (*Client, error) {
	return onGoRedis(func(rdb *redis.Client) (semaphores, error) {
		c, err := via(rdb)
		return func(key string, _ Shape) (Acquire, error) {
			return func(context.Context) (Release, error) {
				ctx := context.Background()
				if err := first(ctx, c, key); err != nil {
					return nil, err
				}
				return func() error { return second(ctx, c, key) }, nil
			}, nil
		}, err
	})
}

// fillTokens creates the list of tokens if it does not exist yet.
var fillTokens = redis.NewScript(`
if redis.call('SETNX', KEYS[2], '1') == 1 then
  for _ = 1, tonumber(ARGV[1]) do redis.call('RPUSH', KEYS[1], 't') end
end
return 1`)

func tokens(rdb *redis.Client) (semaphores, error) {
	return func(key string, s Shape) (Acquire, error) {
		err := fillTokens.Run(context.Background(), rdb, []string{key, key + ":made"}, s.Limit).Err()
		return func(ctx context.Context) (Release, error) { return takeToken(ctx, rdb, key) }, err
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

var publish = redis.NewScript(`return redis.call('PUBLISH', KEYS[1], ARGV[1])`)

// publisher is the floor of a hand-off: a message that a script publishes.
type publisher struct {
	rdb     *redis.Client
	sub     *redis.PubSub
	channel string
	heard   chan time.Time
}

func openPublish(ctx context.Context, url, prefix string, s Shape) (Driver, error) {
	p := &publisher{rdb: redisd.Client(url), channel: prefix + s.Name, heard: make(chan time.Time)}
	p.sub = p.rdb.Subscribe(ctx, p.channel)
	if _, err := p.sub.Receive(ctx); err != nil {
		_ = p.rdb.Close()
		return nil, err
	}
	go p.listen()
	return p, nil
}

// listen receives messages until the subscription is closed.
func (p *publisher) listen() {
	defer close(p.heard)
	for {
		if _, err := p.sub.ReceiveMessage(context.Background()); err != nil {
			return
		}
		p.heard <- time.Now()
	}
}

// Spin implements Driver.
func (p *publisher) Spin(context.Context, Load) (*Outcome, error) {
	return nil, errors.New("a message cannot be held")
}

// Pass implements Driver.
func (p *publisher) Pass(ctx context.Context, n int, pause, most time.Duration) ([]time.Duration, error) {
	var took []time.Duration
	for end := time.Now().Add(most); len(took) < n && time.Now().Before(end); {
		if err := measure.Pause(ctx, pause); err != nil {
			return took, err
		}
		sent := make(chan error, 1)
		start := time.Now()
		go func() { sent <- publish.Run(ctx, p.rdb, []string{p.channel}, "m").Err() }()
		select {
		case at, ok := <-p.heard:
			if !ok {
				return took, errors.New("the subscription has ended")
			}
			took = append(took, at.Sub(start))
		case <-ctx.Done():
			return took, ctx.Err()
		}
		if err := <-sent; err != nil {
			return took, err
		}
	}
	return took, nil
}

// Close implements Driver.
func (p *publisher) Close() {
	_ = p.sub.Close()
	for range p.heard { // let listen see it
	}
	_ = p.rdb.Close()
}
