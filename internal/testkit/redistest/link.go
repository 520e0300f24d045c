package redistest

import (
	"bufio"
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// bufferSize is large enough for a client to send a whole pipeline while its first request
// is held, as it could with the buffers of a real socket.
const bufferSize = 1 << 16

// link is one connection. Its goroutines carry values between the client's pipe and the
// server, and end when it is cut.
type link struct {
	faults *Faults
	client net.Conn // our end of the client's pipe
	server net.Conn
	gone   chan struct{} // closed by cut
	once   sync.Once

	subscribed atomic.Bool // the client has sent a subscription
	forgotten  atomic.Bool // see Faults.Forget

	mu      sync.Mutex
	waiting []fate        // guarded by mu; requests without a reply yet, oldest first
	late    bool          // guarded by mu; a request was held, so the link may outlive its client
	closing bool          // guarded by mu; the client has closed, but replies are still due
	mailbox []delivery    // guarded by mu; what is still to be delivered to the client
	mail    chan struct{} // capacity 1; signals that the mailbox is not empty
}

// delivery is a value on its way to the client.
type delivery struct {
	raw   []byte
	after *Injection // held until its release; nil: not held
	due   time.Time  // not delivered before
	last  bool       // the link is cut after it
}

// fate is what becomes of a reply.
type fate struct {
	fault     Fault // of the request
	injection *Injection
	drop      bool // second reply of a Duplicate
}

func newLink(f *Faults, client, server net.Conn) *link {
	return &link{faults: f, client: client, server: server, gone: make(chan struct{}), mail: make(chan struct{}, 1)}
}

// cut closes both ends and so ends the goroutines.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.gone)
		_ = l.client.Close()
		_ = l.server.Close()
		l.faults.mu.Lock()
		delete(l.faults.links, l)
		l.faults.mu.Unlock()
	})
}

// hold waits for the release. It reports false if the link was cut first.
func (l *link) hold(i *Injection) bool {
	select {
	case <-i.released:
		return true
	case <-l.gone:
		return false
	}
}

// wait waits until due. It reports false if the link was cut first.
func (l *link) wait(due time.Time) bool {
	d := time.Until(due)
	if d <= 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-l.gone:
		return false
	}
}

// carryRequests carries requests until the client closes its end.
func (l *link) carryRequests() {
	defer l.clientClosed()
	r := bufio.NewReaderSize(l.client, bufferSize)
	for hung := false; ; {
		f, err := readFrame(r)
		if err != nil {
			return
		}
		i := l.faults.sent(f.text)
		switch fate := fateOf(i); {
		case hung, l.forgotten.Load():
		case fate.fault == Reset:
			l.cut()
			return
		case fate.fault == SwallowRequest:
			hung = true
		case !l.forward(f, fate):
			return
		}
	}
}

func fateOf(i *Injection) fate {
	if i == nil {
		return fate{}
	}
	return fate{fault: i.rule.Fault, injection: i}
}

// ping is a request that any server answers and that changes nothing.
var ping = frame{kind: '*', raw: []byte("*1\r\n$4\r\nPING\r\n"), text: []string{"PING"}}

// forward sends a request to the server, late, twice or another one if that is its fate. It reports
// false if the link was cut.
func (l *link) forward(f frame, how fate) bool {
	if how.fault == Delay {
		l.mu.Lock()
		l.late = true
		l.mu.Unlock()
		if !l.hold(how.injection) {
			return false
		}
	}
	if how.fault == Refuse {
		f = ping
	}
	fates := []fate{how}
	if how.fault == Duplicate {
		f.raw, fates = bytes.Repeat(f.raw, 2), append(fates, fate{drop: true})
	}
	if answeredByPush(f.text) {
		l.subscribed.Store(true)
	} else {
		// Before the write: the reply may be back before it returns.
		l.mu.Lock()
		l.waiting = append(l.waiting, fates...)
		l.mu.Unlock()
	}
	_, err := l.server.Write(f.raw)
	return err == nil
}

// clientClosed cuts the link, unless a held request is still to be executed: closing the
// connection now could discard it unread in the server's socket.
func (l *link) clientClosed() {
	l.mu.Lock()
	l.closing = true
	wait := l.late && len(l.waiting) > 0
	l.mu.Unlock()
	if !wait {
		l.cut()
	}
}

// carryReplies carries replies until the server closes its end or the link is cut. It never
// waits for the client, because the embedded store stands still for all clients while one
// subscriber does not read.
func (l *link) carryReplies() {
	defer l.queue(delivery{last: true})
	r := bufio.NewReaderSize(l.server, bufferSize)
	for hung := false; ; {
		f, err := readFrame(r)
		if err != nil {
			return
		}
		how := l.fateOf(f)
		switch {
		case hung, l.forgotten.Load(), how.drop, how.fault == DropMessage:
		case how.fault == SwallowReplyAndClose:
			return
		case how.fault == SwallowReply:
			hung = true
		case how.fault == Refuse:
			l.queue(delivery{raw: []byte("-" + how.injection.rule.Error + "\r\n")})
		case how.fault == DelayReply, how.fault == DelayMessage:
			l.queue(delivery{raw: f.raw, after: how.injection})
		default:
			l.queue(delivery{raw: f.raw})
		}
		if l.drained() {
			return
		}
	}
}

// fateOf matches a value from the server with the rules for messages or with
// the request that it answers.
func (l *link) fateOf(f frame) fate {
	if f.isPush(l.subscribed.Load()) {
		return fateOf(l.faults.pushed(f.text))
	}
	return l.nextFate()
}

// nextFate removes and returns the fate of the oldest request, as servers reply in order.
func (l *link) nextFate() fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 { // a greeting such as "-ERR max number of clients"
		return fate{}
	}
	first := l.waiting[0]
	l.waiting = l.waiting[1:]
	return first
}

// drained reports whether the client has closed and no reply is due any more.
func (l *link) drained() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closing && len(l.waiting) == 0
}

// queue adds a delivery for the client.
func (l *link) queue(d delivery) {
	d.due = time.Now().Add(l.faults.latency())
	l.mu.Lock()
	l.mailbox = append(l.mailbox, d)
	l.mu.Unlock()
	select {
	case l.mail <- struct{}{}:
	default:
	}
}

// deliver writes deliveries to the client, until the last one or until the link is cut.
func (l *link) deliver() {
	defer l.cut()
	for {
		l.mu.Lock()
		box := l.mailbox
		l.mailbox = nil
		l.mu.Unlock()
		for _, d := range box {
			if !l.wait(d.due) || d.last || d.after != nil && !l.hold(d.after) {
				return
			}
			_, _ = l.client.Write(d.raw) // carryRequests notices if the client has closed
		}
		select {
		case <-l.mail:
		case <-l.gone:
			return
		}
	}
}
