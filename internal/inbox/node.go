package inbox

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// node keeps a connection to one server for as long as the inbox has channels there.
//
// It reconnects by itself, because go-redis would subscribe to all channels in one command,
// which a Cluster refuses when their slots differ.
type node struct {
	in   *Inbox
	addr string        // "" outside a Cluster
	wake chan struct{} // todo has filled; capacity 1

	// Inbox.mu guards the rest.
	client redis.UniversalClient
	subs   map[string]*subscription // by channel: what the node is to be subscribed to
	todo   map[string]struct{}      // channels for which a request is to be sent, one way or the other
	pause  time.Duration            // before the next connection

	// Of the present connection:
	live    map[string]struct{} // channels for which it has sent a subscribe, and no unsubscribe
	waiting []request           // what the server has yet to answer, in order
	heard   time.Time           // when it last sent something
}

// request is a command that expects an answer.
type request struct {
	verb    verb
	channel string
	sub     *subscription // of a subscribe
	sent    time.Time
}

type verb int

const (
	ping verb = iota
	subscribe
	unsubscribe
)

var errSilent = errors.New("the server does not answer")

func newNode(in *Inbox, addr string) *node {
	n := &node{in: in, addr: addr, wake: make(chan struct{}, 1), pause: leastPause}
	n.subs, n.todo, n.live = map[string]*subscription{}, map[string]struct{}{}, map[string]struct{}{}
	return n
}

// assign makes n subscribe to the channel of s. The caller holds in.mu.
func (n *node) assign(s *subscription, client redis.UniversalClient) {
	n.client = client // another one if the address was away from the Cluster
	s.state, s.node = assigned, n
	n.subs[s.channel] = s
	n.todo[s.channel] = struct{}{}
	if n.pause > leastPause {
		s.endTry() // the last attempt failed, and the next may be seconds away
	}
	signal(n.wake)
}

// leave makes n unsubscribe from the channel of s, if it has subscribed. The caller holds
// in.mu.
func (n *node) leave(s *subscription) {
	delete(n.subs, s.channel)
	if _, live := n.live[s.channel]; live {
		n.todo[s.channel] = struct{}{}
	} else {
		delete(n.todo, s.channel) // a node that cannot be reached must not collect them
	}
	signal(n.wake)
}

// run makes connections for as long as there are channels. It ends with the inbox, or when
// there were no channels for a while.
func (n *node) run() {
	for n.awaitWork() {
		if err := n.serve(); err != nil {
			n.broke(err)
		}
		n.surrender()
	}
}

// awaitWork returns true when there is something to do. If there is not within
// linger, and no channel either, it takes n from the inbox and returns false.
func (n *node) awaitWork() bool {
	over := time.After(linger)
	for n.in.ctx.Err() == nil {
		n.in.mu.Lock()
		work := len(n.todo) > 0
		n.in.mu.Unlock()
		if work {
			return true
		}
		select {
		case <-n.in.ctx.Done():
		case <-n.wake:
		case <-over:
			return !n.retire()
		}
	}
	return false
}

// retire takes n from the inbox unless it was given a channel.
func (n *node) retire() bool {
	n.in.mu.Lock()
	defer n.in.mu.Unlock()
	if len(n.subs) > 0 {
		return false
	}
	delete(n.in.nodes, n.addr)
	return true
}

// serve makes a connection and keeps it until it breaks, and returns the error, or until it
// is not needed any more.
func (n *node) serve() error {
	first := n.take()
	if len(first) == 0 {
		return nil // unsubscribed meanwhile
	}
	n.in.mu.Lock()
	client := bounded(n.client, n.in.quiet)
	n.in.mu.Unlock()
	ctx, cancel := context.WithCancel(n.in.ctx)
	conn := client.Subscribe(ctx) // to nothing: it connects with the first command
	var reading sync.WaitGroup
	defer func() {
		cancel()
		_ = conn.Close()
		reading.Wait()
	}()
	// The client's own time-outs bound the dial, because they may be long on purpose.
	if err := n.send(ctx, conn, first); err != nil {
		return err
	}
	n.in.mu.Lock()
	n.heard = time.Now()
	n.in.mu.Unlock()
	broken := make(chan error, 1)
	reading.Go(func() { broken <- n.read(ctx, conn) })
	return n.tend(ctx, conn, broken)
}

// bounded returns rdb with a time-out of at most longest: without one, the connection's
// first command would wait for ever for a server that is silent from the beginning.
func bounded(rdb redis.UniversalClient, longest time.Duration) redis.UniversalClient {
	if c, ok := rdb.(*redis.Client); ok {
		if t := c.Options().ReadTimeout; t <= 0 || t > longest {
			return c.WithTimeout(longest)
		}
	}
	return rdb
}

// tend sends requests and checks that the connection is alive, until the reader tells that
// it broke.
func (n *node) tend(ctx context.Context, conn *redis.PubSub, broken <-chan error) error {
	watch := time.NewTimer(n.in.quiet)
	defer watch.Stop()
	for {
		var idle <-chan time.Time
		if n.idle() {
			idle = time.After(linger)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-idle:
			return nil
		case err := <-broken:
			return err
		case <-n.wake:
			if err := n.flush(ctx, conn, n.take()); err != nil {
				return err
			}
		case <-watch.C:
			n.follow()
			next, ping, err := n.silence()
			if err == nil {
				err = n.flush(ctx, conn, ping)
			}
			if err != nil {
				return err
			}
			watch.Reset(next)
		}
	}
}

// idle reports whether no channel is left.
func (n *node) idle() bool {
	n.in.mu.Lock()
	defer n.in.mu.Unlock()
	return len(n.subs) == 0
}

// take returns the requests that are to be sent now, and counts them as sent.
func (n *node) take() []request {
	n.in.mu.Lock()
	defer n.in.mu.Unlock()
	var batch []request
	now := time.Now()
	for channel := range n.todo {
		s := n.subs[channel]
		_, live := n.live[channel]
		switch {
		case s != nil: // and assigned: what was asked is not in todo
			s.state = asked
			n.live[channel] = struct{}{}
			batch = append(batch, request{subscribe, channel, s, now})
		case s == nil && live:
			delete(n.live, channel)
			batch = append(batch, request{unsubscribe, channel, nil, now})
		}
	}
	clear(n.todo)
	n.waiting = append(n.waiting, batch...)
	return batch
}

// flush sends requests on an established connection. It must not take longer than an
// answer may, whatever the client's time-outs are.
func (n *node) flush(ctx context.Context, conn *redis.PubSub, batch []request) error {
	ctx, cancel := context.WithTimeout(ctx, n.in.quiet)
	defer cancel()
	return n.send(ctx, conn, batch)
}

// send writes one command for each request, so that each has its own answer and slots are
// never mixed.
func (n *node) send(ctx context.Context, conn *redis.PubSub, batch []request) (err error) {
	sub, unsub := conn.Subscribe, conn.Unsubscribe
	if n.in.cluster != nil {
		sub, unsub = conn.SSubscribe, conn.SUnsubscribe
	}
	for _, r := range batch {
		switch r.verb {
		case ping:
			err = conn.Ping(ctx)
		case subscribe:
			err = sub(ctx, r.channel)
		case unsubscribe:
			err = unsub(ctx, r.channel)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// silence checks how long the server has been silent. It returns a PING if that is too
// long, errSilent if an answer is overdue, too, and the time until the next check.
func (n *node) silence() (next time.Duration, batch []request, err error) {
	n.in.mu.Lock()
	defer n.in.mu.Unlock()
	silent := time.Since(n.heard)
	if silent < n.in.quiet {
		return n.in.quiet - silent, nil, nil
	}
	if len(n.waiting) == 0 {
		batch = []request{{verb: ping, sent: time.Now()}}
		n.waiting = slices.Clone(batch)
		return n.in.quiet, batch, nil
	}
	if waited := time.Since(n.waiting[0].sent); waited < n.in.quiet {
		return n.in.quiet - waited, nil, nil
	}
	return 0, nil, errSilent
}

// follow gives back the channels that another node serves now, as far as the client knows.
// A node that was cut off from the Cluster does not tell.
func (n *node) follow() {
	n.in.mu.Lock()
	subs := make([]*subscription, 0, len(n.subs))
	for _, s := range n.subs {
		subs = append(subs, s)
	}
	n.in.mu.Unlock()
	for _, s := range subs {
		addr, _, err := n.in.server(s.channel)
		if err != nil || addr == n.addr {
			continue
		}
		n.in.mu.Lock()
		if n.subs[s.channel] == s {
			n.leave(s)
			n.in.unroute(s, 0)
		}
		n.in.mu.Unlock()
	}
}

// broke pauses after a connection that failed. Meanwhile the client looks up which nodes
// serve the channels now.
func (n *node) broke(err error) {
	n.in.mu.Lock()
	news := n.in.trouble(n.topic(), slices.Collect(maps.Values(n.subs))...)
	for _, s := range n.subs {
		s.endTry()
	}
	pause := n.pause
	n.pause = min(2*n.pause, mostPause)
	n.in.mu.Unlock()
	if news {
		n.in.warn(n.topic(), err)
	}
	n.in.reload()
	select {
	case <-n.in.ctx.Done():
	case <-time.After(pause):
	}
}

// surrender gives all channels back to the router, after a connection has ended.
func (n *node) surrender() {
	n.in.mu.Lock()
	defer n.in.mu.Unlock()
	for _, s := range n.subs {
		n.in.unroute(s, 0)
	}
	clear(n.subs)
	clear(n.todo)
	clear(n.live)
	n.waiting = nil
}

// topic names n in the log.
func (n *node) topic() string { return cmp.Or(n.addr, "server") }
