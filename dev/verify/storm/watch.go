package storm

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/dev/verify/history"
)

// watch records, until stop is called, when the server was silent because the machine is busy.
// What depends on it is not judged by the clock then. A server that refuses connections is not
// silent.
func (s *storm) watch() (stop func()) {
	rdb := s.server.Client(s, func(o *redis.Options) { o.PoolSize, o.MaxRetries, o.DialerRetries = 1, -1, 1 })
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for from := history.Now(); ctx.Err() == nil; from = history.Now() {
			_ = rdb.Ping(ctx).Err() // the server may be away
			if history.Now().Sub(from) > history.Late {
				s.note(from, history.Event{Text: "server was silent"})
			}
			pause(history.Late / 5)
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}
