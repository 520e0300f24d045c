package peer

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/bench/internal/redisd"
	"github.com/berth-go/berth/internal/measure"
)

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
