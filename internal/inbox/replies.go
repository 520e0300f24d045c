package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// read handles what the server sends until the connection breaks, and returns the error.
func (n *node) read(ctx context.Context, conn *redis.PubSub) error {
	return hear(ctx, conn, func(msg any, err error) error {
		var refusal redis.Error
		switch {
		case errors.As(err, &refusal):
			return n.refused(refusal)
		case err == nil:
			n.accept(msg)
		}
		return err
	})
}

// hear passes messages, answers and errors to take, until take fails or ctx ends, after which nothing
// is delivered. It reads without a deadline: if one passed in the middle of a message, go-redis
// would take the rest for the next message.
//
// When the connection breaks within Receive, go-redis reconnects there, and looks at the
// context only for that. Until it has dialled, take would not see the error, and senders would
// wait for the lock of conn; with a context that has ended, the reconnect fails at once.
func hear(ctx context.Context, conn *redis.PubSub, take func(msg any, err error) error) error {
	noRedial, end := context.WithCancel(ctx)
	end()
	for {
		msg, err := receive(noRedial, conn)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := take(msg, err); err != nil {
			return err
		}
	}
}

// receive waits for the next message. go-redis panics at an answer that no Redis server
// sends; receive returns an error.
func receive(ctx context.Context, conn *redis.PubSub) (msg any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the server does not speak as Redis does: %v", p)
		}
	}()
	return conn.Receive(ctx)
}

// accept handles a message or an answer.
func (n *node) accept(msg any) {
	n.in.mu.Lock()
	n.heard = time.Now()
	n.in.mu.Unlock()
	switch msg := msg.(type) {
	case *redis.Message:
		n.in.mu.Lock()
		_, wanted := n.in.subs[msg.Channel]
		n.in.mu.Unlock()
		if wanted {
			n.in.deliver(msg.Payload)
		}
	case *redis.Pong:
		n.in.mu.Lock()
		n.answered(ping, "")
		n.in.mu.Unlock()
	case *redis.Subscription:
		if strings.HasSuffix(msg.Kind, "unsubscribe") {
			n.ended(msg.Channel)
		} else {
			n.confirmed(msg.Channel)
		}
	}
}

// answered removes a request from those that wait for an answer, and all that were sent
// before it, because answers come in order. It returns false if there was none. The caller
// holds in.mu.
func (n *node) answered(v verb, channel string) bool {
	i := slices.IndexFunc(n.waiting, func(r request) bool { return r.verb == v && r.channel == channel })
	n.waiting = n.waiting[i+1:]
	return i >= 0
}

// confirmed handles the answer to a subscribe.
func (n *node) confirmed(channel string) {
	in := n.in
	in.mu.Lock()
	n.answered(subscribe, channel)
	s := n.subs[channel]
	if s == nil || s.state == assigned { // unsubscribed; or unsubscribed and subscribed again, which has its own answer
		in.mu.Unlock()
		return
	}
	s.state, s.pause, n.pause = standing, 0, leastPause
	over := in.recovered(s, n.topic())
	in.mu.Unlock()
	in.over(over)
	in.resumed(channel)
	s.endTry()
}

// ended handles the end of a subscription: the answer to an unsubscribe, or the notice that
// its slot has moved. The client must first learn where to.
func (n *node) ended(channel string) {
	n.in.mu.Lock()
	defer n.in.mu.Unlock()
	if n.answered(unsubscribe, channel) {
		return
	}
	delete(n.live, channel)
	if s := n.subs[channel]; s != nil {
		delete(n.subs, channel)
		n.in.reload()
		n.in.postpone(s, mostPause)
	}
}

// refused handles an error, which answers the oldest request. If there is none it returns
// the error: then requests and answers no longer match.
func (n *node) refused(err redis.Error) error {
	n.in.mu.Lock()
	n.heard = time.Now()
	if len(n.waiting) == 0 {
		n.in.mu.Unlock()
		return err
	}
	r := n.waiting[0]
	n.waiting = n.waiting[1:]
	if r.verb != subscribe || n.subs[r.channel] != r.sub {
		n.in.mu.Unlock()
		return nil // what is not wanted any more may be refused, and a PING is answered by any answer
	}
	longest := mostPause
	word, _, _ := strings.Cut(err.Error(), " ")
	if word == "ERR" || word == "NOPERM" { // the first is that of an unknown command
		longest = refusedPause
	}
	// A moved slot is not worth a warning until attempts to find its node have failed.
	news := (word != "MOVED" || r.sub.pause >= longest) && n.in.trouble(word, r.sub)
	delete(n.live, r.channel)
	delete(n.subs, r.channel)
	n.in.reload()
	n.in.postpone(r.sub, longest)
	n.in.mu.Unlock()
	if news {
		n.in.warn(n.topic(), err)
	}
	return nil
}
