package berthadmin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/inbox"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/rules"
)

// EventKind is what happened.
type EventKind string

// The kinds of events. Only what berth publishes to a process is an event: grants
// without a wait, renewals and releases are not.
const (
	// EventListening is the first event: Listen is subscribed now.
	EventListening EventKind = "listening"
	// EventHandoff: a waiter was granted its permits.
	EventHandoff EventKind = "handoff"
	// EventExpired: a lease expired, or a waiter's heartbeats ended.
	EventExpired EventKind = "expired"
	// EventEvicted: an operator removed a waiter, or asked a holder to stop.
	EventEvicted EventKind = "evicted"
	// EventTooHeavy: a waiter was refused, because the limit fell below its weight.
	EventTooHeavy EventKind = "too_heavy"
)

// eventReasons are the reasons of messages that are events.
var eventReasons = map[protocol.Reason]EventKind{
	protocol.Expired: EventExpired, protocol.Evicted: EventEvicted, protocol.AskedToStop: EventEvicted, protocol.TooHeavy: EventTooHeavy,
}

// Event is something that happened to a holder or waiter.
type Event struct {
	Kind  EventKind `json:"kind"`
	Name  string    `json:"name"`  // of the semaphore
	ID    string    `json:"id"`    // of the lease or request
	Token int64     `json:"token"` // EventHandoff
	Slot  int       `json:"slot"`  // EventHandoff
	Limit int       `json:"limit"` // EventHandoff: in force
}

// mostMessages is how many messages a second Listen accepts.
const mostMessages = 2000

// Listen calls f with the events of all semaphores, one after another, until ctx ends.
// It reads the messages that berth publishes to clients, and so costs the server one
// more copy of each. f must not block.
//
// Redis publishes across databases: Listen also hears the semaphores that have the same
// prefix in the other databases of the server. Use different prefixes.
//
// Listen does not reconnect: after an error no more events come, and the caller may
// call it again. The error is berth.ErrUnreachable if the connection could not be made, or
// broke; berth.ErrRefused if the user may not subscribe to "PREFIX:*"; ErrFlood above 2,000
// messages a second, so that a listener cannot slow Redis down; ErrUnsupported in a
// Redis Cluster, where each node has its own messages; and ctx's error.
func (in *Inspector) Listen(ctx context.Context, f func(Event)) error {
	if err := in.ready(ctx); err != nil {
		return err
	}
	if in.store.Sharded() {
		return fmt.Errorf("%w: the messages of a Redis Cluster cannot be listened to as a whole", ErrUnsupported)
	}
	feed := feed{f: f, store: in.store}
	err := inbox.Listen(ctx, in.rdb, in.store.AllChannels(), func() { f(Event{Kind: EventListening}) }, feed.take)
	if errors.Is(err, ErrFlood) {
		return err
	}
	return asked(ctx, err)
}

// feed turns messages into events.
type feed struct {
	f     func(Event)
	store *protocol.Store

	second time.Time // when counting began
	count  int
}

// take takes a message: the key, then a line for each event.
func (d *feed) take(channel, payload string) error {
	if now := time.Now(); now.Sub(d.second) > time.Second {
		d.second, d.count = now, 0
	}
	if d.count++; d.count > mostMessages {
		return fmt.Errorf("%w: above %d a second", ErrFlood, mostMessages)
	}
	key, notes := protocol.ReadMessage(payload)
	name, ok := d.store.Name(key)
	if !ok || !d.store.IsChannel(channel) || rules.Name(name, berth.MaxName) != "" {
		return nil // not one of ours
	}
	for n := range notes {
		kind := eventReasons[n.Reason]
		switch {
		case n.Granted:
			d.f(Event{Kind: EventHandoff, Name: name, ID: n.ID, Token: n.Token, Slot: n.Slot, Limit: n.Limit})
		case kind != "":
			d.f(Event{Kind: kind, Name: name, ID: n.ID})
		}
	}
	return nil
}
