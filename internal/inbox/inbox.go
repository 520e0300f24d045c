// Package inbox listens to pub/sub channels for one process, through every
// reconnect.
//
// An Inbox has one connection to a server, or, in a Redis Cluster, one to each
// node that serves a channel of it, however many channels there are. Channels
// come and go with Subscribe and Unsubscribe, which never wait. A channel whose
// slot moves to another node is subscribed there, and the others are left alone.
//
// Messages are hints and may be lost: between two connections, or while a slot
// moves, nobody receives them. Whenever a subscription stands anew, the owner is
// told and has to look at the state itself. A connection that breaks without a
// sign, such as a half-open socket, is noticed after 10 seconds.
//
// The methods of an Inbox never wait for the network, except Close, and that for
// 2 seconds at most.
//
// Each Inbox has a goroutine that finds out which node serves a channel, in
// router.go, and two for each connection, in node.go: one writes, one reads.
// What the server answers is in replies.go.
package inbox

import (
	"context"
	"log/slog"
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
	// Pauses between attempts grow from the first to the second.
	leastPause = 10 * time.Millisecond
	mostPause  = 2 * time.Second
	// refusedPause is the longest pause after an answer that only an operator can
	// change: a missing right, a server that does not know the command.
	refusedPause = 30 * time.Second
	// linger is how long a connection without channels is kept. A channel that
	// comes back within it costs no new connection.
	linger = 2 * time.Second
	// trying bounds the first attempt to subscribe, for those who wait for it.
	trying = 2 * time.Second
	// mostClosing bounds Close.
	mostClosing = 2 * time.Second
)

// Inbox is the subscriptions of one process. Its methods may be called from
// several goroutines.
type Inbox struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // rdb, if that is the client of a Cluster, else nil
	deliver func(payload string)
	resumed func(channel string)
	log     *slog.Logger

	quiet, trying time.Duration // the constants; a test may set them before the first Subscribe

	ctx     context.Context //nolint:containedctx // the life of the goroutines, not a request's
	cancel  context.CancelFunc
	running sync.WaitGroup
	wake    chan struct{} // for the router; capacity 1

	mu       sync.Mutex
	routing  bool                       // guarded by mu; the router runs
	subs     map[string]*subscription   // guarded by mu; by channel: those that are wanted
	unrouted map[*subscription]struct{} // guarded by mu; those of subs that no node has
	nodes    map[string]*node           // guarded by mu; by address
	warned   map[string]struct{}        // guarded by mu; what the log was told of and is not over
}

// subscription is a channel that is wanted. Inbox.mu guards it.
type subscription struct {
	channel string
	tried   <-chan struct{}
	endTry  func() // closes tried

	state     state
	node      *node         // who has it, if it is not unrouted
	due       time.Time     // when the router looks at it, if it is unrouted
	pause     time.Duration // before due; 0 once the subscription stands
	complaint string        // what the log was told of it, "" for nothing
}

// state is how far a subscription has come.
type state int

const (
	unrouted state = iota // the router is to find its node
	assigned              // its node is to send the request
	asked                 // the request was sent
	standing              // the server has confirmed it
)

// Open returns an inbox on rdb that listens to nothing yet. The client must be
// one of a single server, of Sentinel or of a Cluster. It stays the caller's: the
// inbox never closes it.
//
// Deliver gets the payload of every message. Resumed is called with the channel
// once its subscription stands, and again after every reconnect: messages sent
// meanwhile are lost. Both are called from goroutines of the inbox, in a Cluster
// from several at once. They must not block. They may call Subscribe and
// Unsubscribe, but not Close.
//
// What goes wrong is logged once for each outage, as is its end.
func Open(rdb redis.UniversalClient, deliver func(payload string), resumed func(channel string), log *slog.Logger) *Inbox {
	in := &Inbox{
		rdb: rdb, deliver: deliver, resumed: resumed, log: log,
		quiet: quiet, trying: trying, wake: make(chan struct{}, 1),
		subs: map[string]*subscription{}, unrouted: map[*subscription]struct{}{},
		nodes: map[string]*node{}, warned: map[string]struct{}{},
	}
	in.cluster, _ = rdb.(*redis.ClusterClient)
	in.ctx, in.cancel = context.WithCancel(context.Background())
	return in
}

// Subscribe begins to listen to channel, through every reconnect, until
// Unsubscribe or Close. It does not wait. Subscribing to a channel twice is the
// same as once. In a Cluster, channel is a shard channel, whose slot is that of
// its hash tag.
//
// The chan that it returns is closed after the first attempt, good or bad, and
// after 2 seconds if that takes longer. If the attempt was good, resumed has been
// called by then. It is closed at once while the server of the channel is known to
// be away, and after Close.
func (in *Inbox) Subscribe(channel string) (tried <-chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if s := in.subs[channel]; s != nil {
		return s.tried
	}
	ctx, cancel := context.WithTimeout(in.ctx, in.trying)
	if ctx.Err() != nil { // closed
		cancel()
		return ctx.Done()
	}
	if !in.routing { // an inbox that nobody uses needs no goroutine
		in.routing = true
		in.running.Go(in.route)
	}
	s := &subscription{channel: channel, tried: ctx.Done(), endTry: cancel}
	in.subs[channel] = s
	in.unrouted[s] = struct{}{}
	signal(in.wake)
	return s.tried
}

// Unsubscribe ends a subscription: no message that arrives later is delivered. It
// does not wait, the server is told in the background. The connection that has no
// channel any more is closed after 2 seconds. Unsubscribe from a channel that is
// not subscribed does nothing.
func (in *Inbox) Unsubscribe(channel string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := in.subs[channel]
	if s == nil {
		return
	}
	delete(in.subs, channel)
	delete(in.unrouted, s)
	s.endTry()
	if s.node != nil {
		s.node.leave(s)
	}
}

// Close ends all subscriptions and returns when nothing will be delivered any
// more. It waits for 2 seconds at most: a connection that is just being made, by
// a client that does not let go of it, is left to end by itself, and delivers
// nothing either. A second Close does the same.
func (in *Inbox) Close() {
	in.mu.Lock()
	in.cancel() // under mu: Subscribe starts nothing after it
	in.mu.Unlock()
	done := make(chan struct{})
	go func() {
		in.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(mostClosing):
	}
}

// postpone takes s from its node, if it has one, and has the router try again
// later. The caller holds mu.
func (in *Inbox) postpone(s *subscription, longest time.Duration) {
	s.pause = min(max(2*s.pause, leastPause), longest)
	s.endTry()
	in.unroute(s, s.pause)
}

// unroute has the router find a node for s after a pause. The caller holds mu.
func (in *Inbox) unroute(s *subscription, pause time.Duration) {
	s.state, s.node, s.due = unrouted, nil, time.Now().Add(pause)
	in.unrouted[s] = struct{}{}
	signal(in.wake)
}

// reload has the client of a Cluster find out who serves what. go-redis follows a
// redirected command, but not a redirected subscription.
func (in *Inbox) reload() {
	if in.cluster != nil {
		in.cluster.ReloadState(in.ctx)
	}
}

// warn logs what is wrong with topic, a node or a kind of refusal, unless that
// is known already.
func (in *Inbox) warn(topic string, err error) {
	if in.ctx.Err() != nil {
		return
	}
	in.mu.Lock()
	_, known := in.warned[topic]
	in.warned[topic] = struct{}{}
	in.mu.Unlock()
	if !known {
		in.log.Warn("berth: subscription broke; waiting falls back to heartbeats until it is back", "where", topic, "error", err)
	}
}

// over logs that topic is well again, if the log was warned of it.
func (in *Inbox) over(topic string) {
	in.mu.Lock()
	_, known := in.warned[topic]
	delete(in.warned, topic)
	in.mu.Unlock()
	if known {
		in.log.Info("berth: subscription is back", "where", topic)
	}
}

// signal wakes the goroutine that reads from wake, now or when it comes to that.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
