package peer

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/classic"
	"github.com/berth-go/berth/dev/internal/measure"
)

// chapter returns the semaphores of Redis in Action, section 6.3, called the chapter here.
func chapter() []*Peer {
	return []*Peer{
		chapterPeer("basic", "chapter: basic", time.Millisecond, classic.NewBasic),
		chapterPeer("fair", "chapter: fair", time.Millisecond, classic.NewFair),
		chapterPeer("underlock", "chapter: fair under lock", 10*time.Millisecond, classic.NewFairUnderLock),
	}
}

// chapterPeer returns one of them. The chapter does not say when a refused client should
// try again; a random pause keeps clients from trying all at once.
func chapterPeer[S interface{ Driver() classic.Driver }](key, title string, poll time.Duration,
	newSemaphore func(redis.UniversalClient, string, int, ...classic.Option) (S, error),
) *Peer {
	return &Peer{
		Key: key, Title: title, Kind: Semaphore, Queues: true, Poll: poll,
		About: "time-out 10 s as in the chapter, no refresh; a refused client comes again after " + poll.String() + " on average",
		Connect: onGoRedis(func(rdb *redis.Client) (semaphores, error) {
			return func(key string, limit int) (Acquire, error) {
				s, err := newSemaphore(rdb, key, limit)
				if err != nil {
					return nil, err
				}
				return polling(s.Driver(), poll), nil
			}, nil
		}),
	}
}

// polling tries until there is room.
func polling(d classic.Driver, poll time.Duration) Acquire {
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
			if err := measure.Pause(ctx, poll/2+upTo(poll)); err != nil {
				return nil, err
			}
		}
	}
}
