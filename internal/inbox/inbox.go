// Package inbox subscribes one process to pub/sub channels, and reconnects when a
// connection breaks.
//
// An Inbox has one connection to a server, or, in a Redis Cluster, one to each node that
// serves one of its channels, however many channels there are. Subscribe and Unsubscribe
// add and remove channels, and never wait. A channel whose slot moves to another node is
// subscribed there; other channels are not affected.
//
// Messages are hints and may be lost, between two connections or while a slot moves.
// Whenever a subscription is established anew, its owner is told and must look at the
// state itself. A connection that breaks without a sign, such as a half-open socket, is
// noticed after 10 seconds.
//
// The methods of an Inbox never wait for the network, except Wait, which waits for at
// most 2 seconds.
//
// Each Inbox has a goroutine that finds out which node serves a channel (router.go), and
// two for each connection (node.go): one writes, one reads. The server's replies are
// handled in replies.go.
package inbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// quiet is how long a silent connection counts as alive. After that a PING must be
	// answered within the same time. go-redis sends health checks, too, but does not wait
	// for the answer, so that a half-open socket would not be noticed.
	quiet = 5 * time.Second
	// Pauses between attempts grow from the first to the second.
	leastPause = 10 * time.Millisecond
	mostPause  = 2 * time.Second
	// refusedPause is the longest pause after a refusal that only an operator can change:
	// a missing permission, or a server that does not know the command.
	refusedPause = 30 * time.Second
	// linger is how long a connection without channels is kept for the next channel.
	linger = 2 * time.Second
	// trying bounds how long callers wait for the first attempt to subscribe.
	trying = 2 * time.Second
	// mostWaiting bounds Wait.
	mostWaiting = 2 * time.Second
)

// Inbox has the subscriptions of one process. It is safe for concurrent use.
type Inbox struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // rdb, if that is the client of a Cluster, else nil
	deliver func(payload string)
	resumed func(channel string)
	log     *slog.Logger

	quiet, trying time.Duration // the constants; a test may set them before the first Subscribe

	ctx     context.Context //nolint:containedctx // the life of the goroutines, not a request's
	running sync.WaitGroup
	wake    chan struct{} // for the router; capacity 1

	mu       sync.Mutex
	routing  bool                       // guarded by mu; the router runs
	subs     map[string]*subscription   // guarded by mu; by channel: those that are wanted
	unrouted map[*subscription]struct{} // guarded by mu; those of subs that no node has
	nodes    map[string]*node           // guarded by mu; by address
	troubled map[string]troubled        // guarded by mu; by topic: what the log was told of and is not over
}

// subscription is a channel that is wanted. Inbox.mu guards it.
type subscription struct {
	channel string
	tried   <-chan struct{}
	endTry  func() // closes tried

	state state
	node  *node         // who has it, if it is not unrouted
	due   time.Time     // when the router looks at it, if it is unrouted
	pause time.Duration // before due; 0 once the subscription stands
}

// troubled are the subscriptions of subs that met the same trouble.
type troubled map[*subscription]struct{}

// state is the state of a subscription.
type state int

const (
	unrouted state = iota // the router is to find its node
	assigned              // its node is to send the request
	asked                 // the request was sent
	standing              // the server has confirmed it
)

// Open returns an inbox on rdb without subscriptions, which lives until ctx ends. rdb must be a
// client of a single server, of Sentinel or of a Cluster. It remains the caller's: the inbox
// never closes it.
//
// deliver gets the payload of every message. resumed is called with the channel when its
// subscription is established, and again after every reconnect: messages sent meanwhile
// are lost. Both are called from goroutines of the inbox, in a Cluster from several at
// once. They must not block. They may call Subscribe and Unsubscribe, but not Wait.
//
// Errors are logged once for each outage, and so is its end, unless the channels that met
// it are unsubscribed before.
func Open(ctx context.Context, rdb redis.UniversalClient, deliver func(payload string), resumed func(channel string), log *slog.Logger) *Inbox {
	in := &Inbox{
		ctx: ctx, rdb: rdb, deliver: deliver, resumed: resumed, log: log,
		quiet: quiet, trying: trying, wake: make(chan struct{}, 1),
		subs: map[string]*subscription{}, unrouted: map[*subscription]struct{}{},
		nodes: map[string]*node{}, troubled: map[string]troubled{},
	}
	in.cluster, _ = rdb.(*redis.ClusterClient)
	return in
}

// Subscribe subscribes to channel until Unsubscribe or the inbox's end, and does not wait. A second
// Subscribe to a channel changes nothing. In a Cluster, channel is a shard channel, whose
// slot is that of its hash tag.
//
// The returned chan is closed after the first attempt, successful or not, and after 2
// seconds if that takes longer. If the attempt was successful, resumed has been called
// before. The chan is closed at once while the channel's server is known to be
// unreachable, and after the inbox's end.
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

// Unsubscribe ends a subscription: messages that arrive later are not delivered. It does
// not wait; the server is told in the background. A connection without channels is closed
// after 2 seconds. Unsubscribe does nothing for a channel that is not subscribed.
func (in *Inbox) Unsubscribe(channel string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	s := in.subs[channel]
	if s == nil {
		return
	}
	delete(in.subs, channel)
	delete(in.unrouted, s)
	for _, subs := range in.troubled {
		delete(subs, s)
	}
	s.endTry()
	if s.node != nil {
		s.node.leave(s)
	}
}

// Wait returns when nothing will be delivered any more, after the end of the context that Open
// was given. It waits for at most 2 seconds: a connection that the client is still making by
// then is left to end by itself, and delivers nothing.
func (in *Inbox) Wait() {
	in.mu.Lock()   // a Subscribe that has not seen the end yet starts what it starts before
	in.mu.Unlock() //nolint:staticcheck // this one is not empty
	done := make(chan struct{})
	go func() {
		in.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(mostWaiting):
	}
}

// postpone takes s from its node, if it has one, for the router to try again later. The
// caller holds mu.
func (in *Inbox) postpone(s *subscription, longest time.Duration) {
	s.pause = min(max(2*s.pause, leastPause), longest)
	s.endTry()
	in.unroute(s, s.pause)
}

// unroute makes the router find a node for s after a pause. The caller holds mu.
func (in *Inbox) unroute(s *subscription, pause time.Duration) {
	s.state, s.node, s.due = unrouted, nil, time.Now().Add(pause)
	in.unrouted[s] = struct{}{}
	signal(in.wake)
}

// reload makes the client of a Cluster look up which node serves which slot. go-redis does
// so by itself for a redirected command, but not for a redirected subscription.
func (in *Inbox) reload() {
	if in.cluster != nil {
		in.cluster.ReloadState(in.ctx)
	}
}

// unknownNodes is the topic while the client knows no node of a Cluster.
const unknownNodes = "cluster"

// trouble notes that subs met an error of topic, which is a node, unknownNodes or a kind of
// refusal. It returns whether that is news for warn. The caller holds mu.
func (in *Inbox) trouble(topic string, subs ...*subscription) (news bool) {
	if len(subs) == 0 {
		return false
	}
	if in.troubled[topic] == nil {
		in.troubled[topic], news = troubled{}, true
	}
	for _, s := range subs {
		in.troubled[topic][s] = struct{}{}
	}
	return news
}

// recovered ends the topics that s met, and that of its node, because s stands. It returns
// them for over. The caller holds mu.
func (in *Inbox) recovered(s *subscription, node string) (topics []string) {
	for topic, subs := range in.troubled {
		_, met := subs[s]
		switch {
		case met, topic == node, topic == unknownNodes:
			topics = append(topics, topic)
		case len(subs) > 0:
			continue
		}
		// All channels that met one of the other topics are unsubscribed, so its end cannot be
		// seen. Unsubscribe keeps it until a subscription stands: without that, one outage would
		// be logged for each channel that comes and goes.
		delete(in.troubled, topic)
	}
	return topics
}

// warn logs an error that is news.
func (in *Inbox) warn(topic string, err error) {
	if in.ctx.Err() == nil {
		in.log.Warn("berth: subscription broke; waiting falls back to heartbeats until it is back", "where", topic, "error", err)
	}
}

// over logs the end of the errors of topics.
func (in *Inbox) over(topics []string) {
	for _, topic := range topics {
		in.log.Info("berth: subscription is back", "where", topic)
	}
}

// signal wakes the goroutine that reads from wake, now or when it next reads.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
