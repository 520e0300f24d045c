package inbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// TestAnswerToAnEarlierRequest: a channel is left and taken again before the
// server has answered its first request. That answer does not stand for the second
// request, which is still to be sent.
func TestAnswerToAnEarlierRequest(t *testing.T) {
	inBubble(t, func(w *world) {
		o := open(w, w.rdb)
		n := newNode(o.Inbox, "")
		assign := func() *subscription {
			s := &subscription{channel: "c", endTry: func() {}}
			n.assign(s, w.rdb)
			return s
		}
		first := assign()
		sent := n.take()
		n.leave(first)
		sent = append(sent, n.take()...)
		second := assign()
		n.confirmed("c")
		if second.state == standing {
			t.Error("the answer to the first request counts")
		}
		sent = append(sent, n.take()...)
		n.ended("c")
		n.confirmed("c")
		if second.state != standing || len(n.waiting) != 0 || o.count(event{resumed: "c"}) != 1 {
			t.Errorf("state %d, waiting %v, %v", second.state, n.waiting, o.all())
		}
		for i, want := range []verb{subscribe, unsubscribe, subscribe} {
			if len(sent) != 3 || sent[i].verb != want {
				t.Errorf("sent %v", sent)
			}
		}
	})
}

// TestRefusedSubscription: a right is missing. The log is told once, nobody waits
// for an answer, and when an operator has given the right, messages come.
func TestRefusedSubscription(t *testing.T) {
	onServer(t, func(w *world) {
		w.real.Do(w, "ACL", "SETUSER", "narrow", "on", ">secret", "+@all", "resetchannels", "&open*")
		o := patiently(w, w.client(func(o *redis.Options) { o.Username, o.Password = "narrow", "secret" }))
		<-o.Subscribe("closed")
		<-o.Subscribe("shut")
		<-o.Subscribe("open")
		o.await(event{resumed: "open"}, 1)
		eventually(w, "the third refusal", func() bool {
			o.Inbox.mu.Lock()
			defer o.Inbox.mu.Unlock()
			return o.subs["closed"].pause >= 8*leastPause
		})
		if n := o.logs("WARN"); n != 1 || strings.Contains(o.logged.String(), "secret") {
			w.Errorf("%d warnings: %s", n, &o.logged)
		}
		w.real.Do(w, "ACL", "SETUSER", "narrow", "allchannels")
		o.await(event{resumed: "closed"}, 1)
		o.await(event{resumed: "shut"}, 1)
		if n := o.count(event{resumed: "open"}); n != 1 {
			w.Errorf("a refusal of other channels broke the connection: resumed %d times", n)
		}
		w.publish("closed", "m", 1)
		o.await(event{message: "m"}, 1)
	})
}

// TestRecurrenceIsLogged: a refusal is logged, and its channel is left. Once another
// subscription stands, the next refusal is news.
func TestRecurrenceIsLogged(t *testing.T) {
	onServer(t, func(w *world) {
		w.real.Do(w, "ACL", "SETUSER", "narrow", "on", ">secret", "+@all", "resetchannels")
		o := patiently(w, w.client(func(o *redis.Options) { o.Username, o.Password = "narrow", "secret" }))
		o.Subscribe("c")
		eventually(w, "a warning", func() bool { return o.logs("WARN") == 1 })
		o.Unsubscribe("c")
		w.real.Do(w, "ACL", "SETUSER", "narrow", "allchannels")
		o.listen("c")
		o.Unsubscribe("c")
		eventually(w, "the channel to be left", func() bool { return w.channels() == 0 })
		w.real.Do(w, "ACL", "SETUSER", "narrow", "resetchannels")
		o.Subscribe("c")
		eventually(w, "a second warning", func() bool { return o.logs("WARN") == 2 })
	})
}

// TestLastingRefusalIsLoggedOnce, although the channels that it meets come and go.
func TestLastingRefusalIsLoggedOnce(t *testing.T) {
	onServer(t, func(w *world) {
		w.real.Do(w, "ACL", "SETUSER", "narrow", "on", ">secret", "+@all", "resetchannels")
		o := patiently(w, w.client(func(o *redis.Options) { o.Username, o.Password = "narrow", "secret" }))
		for range 5 {
			<-o.Subscribe("c")
			eventually(w, "a warning", func() bool { return o.logs("WARN") > 0 })
			o.Unsubscribe("c")
		}
		o.Close() // a refusal is logged after its channel's chan is closed
		if n := o.logs("WARN"); n != 1 {
			w.Errorf("%d warnings: %s", n, &o.logged)
		}
	})
}

// relay is a dialer that hands what the server sends to alter, which writes to the
// client what it likes.
func relay(dial redistest.DialFunc, alter func(client net.Conn, data []byte)) redistest.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		server, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		client, inner := net.Pipe()
		go func() {
			defer server.Close()
			_, _ = io.Copy(server, inner)
		}()
		go func() {
			defer inner.Close()
			buf := make([]byte, 1<<16)
			for {
				n, err := server.Read(buf)
				if err != nil {
					return
				}
				alter(inner, buf[:n])
			}
		}()
		return client, nil
	}
}

// TestMessageThatComesSlowly: its halves are longer apart than an answer to a PING
// may take to be asked for. The second is not taken for a message of its own.
func TestMessageThatComesSlowly(t *testing.T) {
	inBubble(t, func(w *world) {
		slowly := func(client net.Conn, data []byte) {
			if i := bytes.Index(data, []byte("slow")); i >= 0 {
				_, _ = client.Write(data[:i])
				<-time.After(quiet + time.Second)
				data = data[i:]
			}
			_, _ = client.Write(data)
		}
		rdb := w.client(func(o *redis.Options) { o.Dialer = relay(redistest.Embedded(w.embedded), slowly) })
		o := open(w, rdb)
		o.listen("c")
		<-time.After(3 * time.Second) // a message begins in the middle of a quiet time
		w.publish("c", "slow and long", 1)
		o.await(event{message: "slow and long"}, 1)
		if n := o.count(event{resumed: "c"}); n != 1 {
			t.Errorf("resumed %d times", n)
		}
	})
}

// TestGarbageDoesNotPanic: what is not an answer of Redis breaks the connection,
// not the program.
func TestGarbageDoesNotPanic(t *testing.T) {
	for i, garbage := range []string{
		"*0\r\n", "*1\r\n:1\r\n", "*3\r\n$7\r\nmessage\r\n:1\r\n:2\r\n", "*2\r\n$4\r\npong\r\n:1\r\n", "*1\r\n$9\r\nsubscribe\r\n",
		"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n$1\r\nx\r\n", "%1\r\n+a\r\n+b\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", "-MOVED\r\n", "-\r\n", "_\r\n", "$-1\r\n",
		"*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n", "*3\r\n$9\r\nsubscribe\r\n$1\r\nz\r\n:1\r\n", "+PONG\r\n",
	} {
		inBubbleNamed(t, fmt.Sprint(i), func(w *world) {
			spoil := func(client net.Conn, data []byte) {
				if bytes.Contains(data, []byte("spoil")) {
					data = []byte(garbage)
				}
				_, _ = client.Write(data)
			}
			rdb := w.client(func(o *redis.Options) { o.Dialer = relay(redistest.Embedded(w.embedded), spoil) })
			o := open(w, rdb)
			o.listen("c")
			w.publish("c", "spoil", 1)
			o.until("a message", func() bool {
				w.embedded.Publish("c", "m")
				signal(o.changed)
				<-time.After(time.Second)
				return o.count(event{message: "m"}) > 0
			})
		})
	}
}
