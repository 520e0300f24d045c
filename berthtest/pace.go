package berthtest

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// pace is the delay of commands to the store.
type pace struct {
	mu      sync.Mutex
	delay   time.Duration // guarded by mu
	changed chan struct{} // guarded by mu; closed when delay changes
}

func newPace() *pace { return &pace{changed: make(chan struct{})} }

func (p *pace) set(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = max(d, 0)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *pace) get() time.Duration {
	d, _ := p.now()
	return d
}

func (p *pace) now() (time.Duration, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay, p.changed
}

// dialer returns a dialer whose connections have the delay of p.
func (p *pace) dialer(dial redistest.DialFunc) redistest.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &slowConn{Conn: conn, pace: p, mail: make(chan struct{}, 1), gone: make(chan struct{})}
		c.carrier.Go(c.carry)
		return c, nil
	}
}

// slowConn delivers what is written to it after the delay, in order. Writing
// does not block: commands that were sent together arrive together.
type slowConn struct {
	net.Conn

	pace    *pace
	mail    chan struct{} // capacity 1; the queue has filled
	gone    chan struct{} // closed by Close
	once    sync.Once
	carrier sync.WaitGroup

	mu    sync.Mutex
	queue []parcel // guarded by mu
}

type parcel struct {
	data []byte
	sent time.Time
}

// Write implements net.Conn: it notes b and the time, and returns at once.
func (c *slowConn) Write(b []byte) (int, error) {
	select {
	case <-c.gone:
		return 0, net.ErrClosed
	default:
	}
	c.mu.Lock()
	c.queue = append(c.queue, parcel{append([]byte(nil), b...), time.Now()})
	c.mu.Unlock()
	select {
	case c.mail <- struct{}{}:
	default:
	}
	return len(b), nil
}

// Close discards what has not been delivered.
func (c *slowConn) Close() error {
	c.once.Do(func() { close(c.gone) })
	err := c.Conn.Close()
	c.carrier.Wait()
	return err
}

func (c *slowConn) carry() {
	for {
		c.mu.Lock()
		queue := c.queue
		c.queue = nil
		c.mu.Unlock()
		for _, p := range queue {
			if !c.wait(p.sent) {
				return
			}
			if _, err := c.Conn.Write(p.data); err != nil {
				return
			}
		}
		select {
		case <-c.mail:
		case <-c.gone:
			return
		}
	}
}

// wait returns when what was sent at sent is due; false: the connection was closed.
func (c *slowConn) wait(sent time.Time) bool {
	for {
		delay, changed := c.pace.now()
		left := time.Until(sent.Add(delay))
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
		case <-c.gone:
			timer.Stop()
			return false
		}
		timer.Stop()
	}
}
