package inbox

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Listen subscribes to pattern, calls standing, and then calls deliver for each message to
// a channel that matches. It returns the error when ctx ends, the connection breaks or
// deliver fails, and does not reconnect. A connection that the client is still making when
// ctx ends is left to end by itself. Patterns do not match shard channels.
func Listen(ctx context.Context, rdb redis.UniversalClient, pattern string, standing func(), deliver func(channel, payload string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	conn, err := psubscribe(ctx, rdb, pattern)
	if err != nil {
		cancel()
		return err
	}
	var reading sync.WaitGroup
	defer func() {
		cancel()
		_ = conn.Close()
		reading.Wait()
	}()
	server := pulse{began: time.Now()}
	broken := make(chan error, 1)
	reading.Go(func() {
		broken <- hear(ctx, conn, func(msg any, err error) error {
			if err != nil {
				return err
			}
			server.heard.Store(int64(time.Since(server.began)))
			switch msg := msg.(type) {
			case *redis.Subscription:
				standing()
			case *redis.Message:
				return deliver(msg.Channel, msg.Payload)
			}
			return nil
		})
	})
	watch := time.NewTimer(quiet)
	defer watch.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-broken:
			return err
		case <-watch.C:
			next, ping, err := server.check(time.Since(server.began))
			if err == nil && ping {
				err = conn.Ping(ctx)
			}
			if err != nil {
				return err
			}
			watch.Reset(next)
		}
	}
}

// pulse tells whether a server is still there. Its times are since it began, so that nobody can
// set the clock meanwhile.
type pulse struct {
	began time.Time
	heard atomic.Int64  // when the server last sent something
	asked time.Duration // when the last PING was sent
}

// check looks at now, and returns when to look next. If the server has been silent for too long,
// it wants a PING; if it has not answered that in time, it fails. Without a PING a silence says
// nothing: this process may have been held up.
func (p *pulse) check(now time.Duration) (next time.Duration, ping bool, err error) {
	heard := time.Duration(p.heard.Load())
	if left := max(heard, p.asked) + quiet - now; left > 0 {
		return left, false, nil
	}
	if p.asked > heard {
		return 0, false, errSilent
	}
	p.asked = now
	return quiet, true, nil
}

// psubscribe makes a connection and sends the request on it. It returns ctx's error as soon
// as ctx ends, whatever the client's time-outs are.
func psubscribe(ctx context.Context, rdb redis.UniversalClient, pattern string) (*redis.PubSub, error) {
	conn := bounded(rdb, quiet).PSubscribe(ctx) // to nothing: it connects with the first command
	var err error
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		err = conn.PSubscribe(ctx, pattern)
	}()
	select {
	case <-sent:
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
		return conn, nil
	case <-ctx.Done():
		go func() {
			<-sent // the dial may hang, and Close would wait for it
			_ = conn.Close()
		}()
		return nil, ctx.Err()
	}
}
