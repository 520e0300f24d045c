package peer

import (
	"context"
	"time"

	"github.com/berth-go/berth/dev/bench/internal/redisd"
	"github.com/berth-go/berth/dev/internal/algo"
	"github.com/berth-go/berth/dev/internal/measure"
)

// chapterTimeout is the chapter's default.
const chapterTimeout = 10 * time.Second

// chapter returns the semaphores of Redis in Action, section 6.3, called the chapter here. The
// chapter does not say when a refused client should try again; a random pause keeps clients from
// trying all at once.
func chapter() (list []*Peer) {
	for _, a := range algo.Chapter() {
		poll := time.Millisecond
		if a.Key == "underlock" {
			poll *= 10
		}
		list = append(list, &Peer{
			Key: a.Key, Title: "chapter: " + a.Title, Kind: Semaphore, Queues: true, Poll: poll, Fill: a.Fill,
			About: "time-out 10 s as in the chapter, no refresh; a refused client comes again after " + poll.String() + " on average",
			Connect: func(url, prefix string) (*Client, error) {
				rdb := redisd.Client(url)
				return &Client{
					Close: func() { _ = rdb.Close() },
					Semaphore: func(name string, s Shape) (Acquire, error) {
						c, err := a.Open(algo.Setup{Redis: rdb, Prefix: prefix, Name: name, Limit: s.Limit, Timeout: chapterTimeout})
						return polling(c, poll), err
					},
				}, nil
			},
		})
	}
	return list
}

// polling tries until there is room.
func polling(c algo.Client, poll time.Duration) Acquire {
	return func(ctx context.Context) (Release, error) {
		for {
			// An attempt whose context ends midway might leave a permit taken.
			p, ok, err := c.Acquire(context.WithoutCancel(ctx), func() {})
			if err != nil {
				return nil, err
			}
			if ok {
				return func() error {
					_, err := p.Release(context.Background())
					return err
				}, nil
			}
			if err := measure.Pause(ctx, poll/2+upTo(poll)); err != nil {
				return nil, err
			}
		}
	}
}
