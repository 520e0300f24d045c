package berth

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth/internal/inbox"
)

// EventKind tells what happened.
type EventKind string

// The kinds of events. Only what a process must be told is an event: a grant to
// somebody who did not wait, a renewal or a release is none.
const (
	// EventListening is the first event: what happens from now on is heard.
	EventListening EventKind = "listening"
	// EventHandoff: a waiter was granted its permits.
	EventHandoff EventKind = "handoff"
	// EventExpired: a lease ran out, or a waiter was not heard from.
	EventExpired EventKind = "expired"
	// EventEvicted: an operator took a waiter out, or asked a holder to stop.
	EventEvicted EventKind = "evicted"
	// EventTooHeavy: a waiter was sent away, because the limit fell below its weight.
	EventTooHeavy EventKind = "too_heavy"
)

// eventReasons are the reasons of messages that are events.
var eventReasons = map[string]EventKind{"2": EventExpired, "3": EventEvicted, "4": EventTooHeavy}

// Event is something that happened to a holder or waiter.
type Event struct {
	Kind  EventKind `json:"kind"`
	Name  string    `json:"name"`  // of the semaphore
	ID    string    `json:"id"`    // of the lease or request
	Token int64     `json:"token"` // EventHandoff
	Slot  int       `json:"slot"`  // EventHandoff
	Limit int       `json:"limit"` // EventHandoff: in force
}

// mostMessages is how many messages a second Listen takes.
const mostMessages = 2000

// Listen calls f with what happens to all semaphores, one event after another, until
// ctx ends. It reads the messages that Redis sends to the processes concerned, and so
// costs the server one copy of each. f must not block.
//
// It does not try again: an error says that nothing is heard any more, and calling it
// again may help. ErrUnreachable when the connection could not be made, or broke;
// ErrRefused when the user may not subscribe to "PREFIX:*"; ErrFlood above 2,000
// messages a second, which are too much for a spectator; ErrUnsupported in a Cluster,
// where each node has its own messages.
func (in *Inspector) Listen(ctx context.Context, f func(Event)) error {
	if err := validContext(ctx); err != nil {
		return err
	}
	if in.store.Sharded() {
		return fmt.Errorf("%w: the messages of a Redis Cluster cannot be listened to as a whole", ErrUnsupported)
	}
	feed := feed{f: f, inboxes: in.prefix + ":inbox:", name: in.store.Name}
	// Users have the right to this very pattern, and not to narrower ones.
	err := inbox.Listen(ctx, in.rdb, in.prefix+":*", func() { f(Event{Kind: EventListening}) }, feed.take)
	if errors.Is(err, ErrFlood) {
		return err
	}
	return asked(ctx, err)
}

// feed makes events of messages.
type feed struct {
	f       func(Event)
	inboxes string // what their channels begin with
	name    func(key string) (string, bool)

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
	key, lines, _ := strings.Cut(payload, "\n")
	name, ok := d.name(key)
	if !ok || !strings.HasPrefix(channel, d.inboxes) || validName(name) != nil {
		return nil //nolint:nilerr // not one of ours
	}
	for line := range strings.SplitSeq(lines, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 5 && words[0] == "g":
			e := Event{Kind: EventHandoff, Name: name, ID: words[1]}
			e.Token, _ = strconv.ParseInt(words[2], 10, 64)
			e.Slot, _ = strconv.Atoi(words[3])
			e.Limit, _ = strconv.Atoi(words[4])
			d.f(e)
		case len(words) == 3 && words[0] == "x" && eventReasons[words[2]] != "":
			d.f(Event{Kind: eventReasons[words[2]], Name: name, ID: words[1]})
		}
	}
	return nil
}
