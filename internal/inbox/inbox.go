// Package inbox listens on one pub/sub channel for as long as it is open,
// through every reconnect.
//
// Messages are hints and may be lost: whenever the subscription is new, the
// owner is told and must look at the state itself.
package inbox

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// quiet is how long a silent connection is believed to be alive; then a PING
	// must be answered within as long again. go-redis sends health checks too,
	// but does not wait for the answer, so a half-open socket would stay silent
	// until somebody wrote to it.
	quiet = 5 * time.Second
	// Pauses between attempts to subscribe grow from the first to the second.
	leastPause = 10 * time.Millisecond
	mostPause  = 2 * time.Second
	// mostClosing bounds Close.
	mostClosing = 2 * time.Second
)

// Inbox is an open subscription.
type Inbox struct {
	subscribe  func(ctx context.Context) (*redis.PubSub, error)
	lookAround func(ctx context.Context) // has the client of a cluster find out who serves what
	deliver    func(payload string)
	resumed    func()
	log        *slog.Logger

	tried  chan struct{} // closed after the first attempt to subscribe, good or bad
	once   sync.Once
	ctx    context.Context //nolint:containedctx // the goroutine's life, not a request's
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	conn *redis.PubSub // guarded by mu; what Close interrupts
}

// Open starts to listen on channel, a shard channel if sharded. From one
// goroutine, deliver gets every message and resumed is called after every
// (re)subscription. Neither may block for long.
func Open(rdb redis.UniversalClient, channel string, sharded bool, deliver func(string), resumed func(), log *slog.Logger) *Inbox {
	// In two steps: Subscribe with a channel hides the error of the first attempt.
	subscribe := func(ctx context.Context) (*redis.PubSub, error) {
		conn := rdb.Subscribe(ctx)
		return conn, conn.Subscribe(ctx, channel)
	}
	if sharded {
		subscribe = func(ctx context.Context) (*redis.PubSub, error) {
			conn := rdb.SSubscribe(ctx)
			return conn, conn.SSubscribe(ctx, channel)
		}
	}
	lookAround := func(context.Context) {}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		lookAround = cluster.ReloadState
	}
	in := &Inbox{
		subscribe: subscribe, lookAround: lookAround, deliver: deliver, resumed: resumed, log: log.With("channel", channel),
		tried: make(chan struct{}), done: make(chan struct{}),
	}
	in.ctx, in.cancel = context.WithCancel(context.Background())
	go in.run()
	return in
}

// Tried is closed once the first attempt to subscribe has succeeded or failed.
func (in *Inbox) Tried() <-chan struct{} { return in.tried }

// Close stops listening. When it returns nothing will be delivered any more,
// unless a connection was just being made: go-redis cannot be interrupted in
// that, so after mostClosing it is left to end by itself.
func (in *Inbox) Close() {
	in.cancel()
	in.mu.Lock()
	if in.conn != nil {
		_ = in.conn.Close()
	}
	in.mu.Unlock()
	select {
	case <-in.done:
	case <-time.After(mostClosing):
	}
}

func (in *Inbox) run() {
	defer close(in.done)
	defer in.once.Do(func() { close(in.tried) })
	pause := leastPause
	for in.ctx.Err() == nil {
		if in.listen() {
			pause = leastPause
		}
		// What broke the subscription may be that the slot has moved. go-redis
		// follows a redirected command, but not a redirected subscription: that
		// goes to the old node again until the client has looked around.
		in.lookAround(in.ctx)
		select {
		case <-in.ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
	}
}

// listen holds one subscription until it breaks. It reports whether it ever stood.
func (in *Inbox) listen() (stood bool) {
	conn, err := in.subscribe(in.ctx)
	defer func() { _ = conn.Close() }()
	if err != nil {
		in.report(err)
		return false
	}
	in.interruptible(conn)
	defer in.interruptible(nil)

	pinged := false
	for in.ctx.Err() == nil {
		msg, err := conn.ReceiveTimeout(in.ctx, quiet)
		switch {
		case err == nil:
			pinged = false
		case isTimeout(err) && !pinged:
			pinged = true
			err = conn.Ping(in.ctx)
		}
		if err != nil {
			in.report(err)
			return stood
		}
		switch msg := msg.(type) {
		case *redis.Message:
			in.deliver(msg.Payload)
		case *redis.Subscription:
			if msg.Kind != "subscribe" && msg.Kind != "ssubscribe" {
				return stood // the slot has moved: subscribe where it is now
			}
			stood = true
			in.once.Do(func() { close(in.tried) })
			in.resumed()
		}
	}
	return stood
}

// interruptible tells Close what to close. Not while a connection is being made:
// go-redis holds its lock then.
func (in *Inbox) interruptible(conn *redis.PubSub) {
	in.mu.Lock()
	in.conn = conn
	in.mu.Unlock()
}

func (in *Inbox) report(err error) {
	in.once.Do(func() { close(in.tried) })
	if in.ctx.Err() == nil {
		in.log.Warn("berth: subscription broke; waiting falls back to heartbeats until it is back", "error", err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
