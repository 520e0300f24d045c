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
	var heard atomic.Int64
	heard.Store(time.Now().UnixNano())
	broken := make(chan error, 1)
	reading.Go(func() {
		broken <- hear(ctx, conn, func(msg any) error {
			heard.Store(time.Now().UnixNano())
			switch msg := msg.(type) {
			case *redis.Subscription:
				standing()
			case *redis.Message:
				return deliver(msg.Channel, msg.Payload)
			}
			return nil
		})
	})
	watch := time.NewTicker(quiet)
	defer watch.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-broken:
			return err
		case <-watch.C:
			switch silent := time.Since(time.Unix(0, heard.Load())); {
			case silent >= 2*quiet:
				return errSilent
			case silent >= quiet:
				if err := conn.Ping(ctx); err != nil {
					return err
				}
			}
		}
	}
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

// hear passes what the server sends to take, until ctx ends, the connection breaks or take
// fails. For noRedial see read.
func hear(ctx context.Context, conn *redis.PubSub, take func(msg any) error) error {
	noRedial, end := context.WithCancel(ctx)
	end()
	for {
		msg, err := receive(noRedial, conn)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			err = take(msg)
		}
		if err != nil {
			return err
		}
	}
}
