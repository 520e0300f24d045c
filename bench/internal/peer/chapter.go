package peer

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/bench/internal/redisd"
	"github.com/berth-go/berth/classic"
)

// chapter returns the semaphores of Redis in Action, section 6.3, called the chapter here.
func chapter() []*Peer {
	return []*Peer{
		chapterPeer("basic", "chapter: basic", time.Millisecond, func(rdb *redis.Client, name string, limit int) (classic.Driver, error) {
			s, err := classic.NewBasic(rdb, name, limit)
			return driver(s, err)
		}),
		chapterPeer("fair", "chapter: fair", time.Millisecond, func(rdb *redis.Client, name string, limit int) (classic.Driver, error) {
			s, err := classic.NewFair(rdb, name, limit)
			return driver(s, err)
		}),
		chapterPeer("underlock", "chapter: fair under lock", 10*time.Millisecond, func(rdb *redis.Client, name string, limit int) (classic.Driver, error) {
			s, err := classic.NewFairUnderLock(rdb, name, limit)
			return driver(s, err)
		}),
	}
}

func driver[S interface{ Driver() classic.Driver }](s S, err error) (classic.Driver, error) {
	if err != nil {
		return nil, err
	}
	return s.Driver(), nil
}

// chapterPeer returns one of them. The chapter does not say when a refused client should
// try again; a random pause keeps clients from trying all at once.
func chapterPeer(key, title string, poll time.Duration, newDriver func(*redis.Client, string, int) (classic.Driver, error)) *Peer {
	pause := func() time.Duration { return poll/2 + upTo(poll) }
	return &Peer{
		Key: key, Title: title, Kind: Semaphore, Queues: true, Poll: poll,
		About: "time-out 10 s as in the chapter, no refresh; a refused client comes again after " + poll.String() + " on average",
		Connect: func(url, prefix string) (*Client, error) {
			rdb := redisd.Client(url)
			return &Client{
				Close: func() { _ = rdb.Close() },
				Semaphore: func(name string, limit int) (Acquire, error) {
					d, err := newDriver(rdb, prefix+name, limit)
					if err != nil {
						return nil, err
					}
					return polling(d, pause), nil
				},
			}, nil
		},
	}
}

// polling tries until there is room.
func polling(d classic.Driver, pause func() time.Duration) Acquire {
	return func(ctx context.Context) (Release, error) {
		for {
			// An attempt whose context ends midway might leave a permit taken.
			release, ok, err := d.Acquire(context.WithoutCancel(ctx))
			if err != nil {
				return nil, err
			}
			if ok {
				return func() error {
					_, err := release(context.Background())
					return err
				}, nil
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(pause()):
			}
		}
	}
}
