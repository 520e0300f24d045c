package redistest

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Fault is what happens to a command, or to a message, that a Rule picks. A connection
// whose byte stream cannot go on after the fault hangs: it stays silent until the client
// closes it.
type Fault int

// The faults, from the client's point of view.
const (
	// SwallowReply: the server executes the request, the reply is lost, the
	// connection hangs.
	SwallowReply Fault = iota + 1
	// SwallowReplyAndClose: as SwallowReply, but the connection is closed.
	SwallowReplyAndClose
	// SwallowRequest: the request never arrives, the connection hangs.
	SwallowRequest
	// Reset: the connection is closed and the request never arrives.
	Reset
	// Duplicate: the server gets the request twice, in one write, so that a server which reads it
	// executes nothing between the two; the second reply is dropped.
	Duplicate
	// Delay: the request arrives only after Injection.Release, even if its
	// client has given up and closed the connection by then.
	Delay
	// DelayReply: the server executes the request, its reply and what follows
	// on the connection arrive after Injection.Release.
	DelayReply
	// Refuse: the client gets Rule.Error as the reply, the server gets a PING in place of
	// the request.
	Refuse
	// DropMessage: a pub/sub message is lost. Match sees "message", the
	// channel and the payload, or "subscribe" and so on for confirmations.
	DropMessage
	// DelayMessage: a pub/sub message and what follows on the connection
	// arrive after Injection.Release.
	DelayMessage
)

// ofMessages reports whether the fault strikes messages rather than requests.
func (f Fault) ofMessages() bool { return f == DropMessage || f == DelayMessage }

// Command is a request, its name first, or a pub/sub message.
type Command []string

// Name returns the command's name in upper case, "" for an empty one.
func (c Command) Name() string {
	if len(c) == 0 {
		return ""
	}
	return strings.ToUpper(c[0])
}

// IsScript matches EVAL, EVALSHA and their read-only forms.
func IsScript(c Command) bool { return strings.HasPrefix(c.Name(), "EVAL") }

// Declares returns how many keys a call of a script declares, or -1 if c is none.
func Declares(c Command) int {
	if !IsScript(c) || len(c) < 3 {
		return -1
	}
	n, err := strconv.Atoi(c[2])
	if err != nil {
		return -1
	}
	return n
}

// Named returns a predicate that matches the commands with these names.
func Named(names ...string) func(Command) bool {
	return func(c Command) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, c.Name()) })
	}
}

// Rule picks commands, or messages, and says what happens to them.
type Rule struct {
	Match func(Command) bool // nil: all; it must not call methods of Faults
	Fault Fault
	Error string // of Refuse, for example "ERR unknown command"
	Times int    // number of commands to pick; 0: one, negative: all
}

// Injection is a Rule in force.
type Injection struct {
	rule     Rule
	faults   *Faults
	left     int           // guarded by faults.mu; negative: no end
	hits     int           // guarded by faults.mu
	hit      chan struct{} // closed at the first hit
	released chan struct{} // closed by Release
	release  sync.Once
}

// Hit returns a channel that is closed when the rule picks its first command.
func (i *Injection) Hit() <-chan struct{} { return i.hit }

// Hits returns how many commands the rule has picked.
func (i *Injection) Hits() int {
	i.faults.mu.Lock()
	defer i.faults.mu.Unlock()
	return i.hits
}

// Release lets go of everything that Delay, DelayReply or DelayMessage holds. The rule
// holds nothing from then on.
func (i *Injection) Release() { i.release.Do(func() { close(i.released) }) }

// Stop makes the rule pick no more commands. What it holds stays held.
func (i *Injection) Stop() {
	i.faults.mu.Lock()
	defer i.faults.mu.Unlock()
	i.left = 0
}

// DialFunc is the type of redis.Options.Dialer.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// Faults is a network between clients and servers that counts commands and fails according
// to rules. It pairs requests with replies, so MONITOR and CLIENT REPLY must not be used on
// it.
type Faults struct {
	mu         sync.Mutex
	injections []*Injection       // guarded by mu; in the order of Inject
	counts     map[string]int     // guarded by mu
	links      map[*link]struct{} // guarded by mu
	down       bool               // guarded by mu; dials are refused
	late       time.Duration      // guarded by mu; see Latency
	wg         sync.WaitGroup     // goroutines of links
}

// NewFaults returns a network without faults. It cuts the remaining connections when the
// test ends, which in a synctest bubble is before the bubble does.
func NewFaults(t interface{ Cleanup(func()) }) *Faults {
	f := &Faults{counts: map[string]int{}, links: map[*link]struct{}{}}
	t.Cleanup(func() {
		f.Down()
		f.wg.Wait()
	})
	return f
}

// Wrap makes a client with these options connect through f. It can be passed to
// (*Server).Client.
func (f *Faults) Wrap(o *redis.Options) { o.Dialer = f.Dialer(o.Dialer) }

// Dialer returns a dialer whose connections go through f. It makes them with dial, or over
// the real network if dial is nil. Its errors are those of a network, whatever dial's are.
func (f *Faults) Dialer(dial DialFunc) DialFunc {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := f.dial(ctx, dial, network, addr)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		return conn, nil
	}
}

func (f *Faults) dial(ctx context.Context, dial DialFunc, network, addr string) (net.Conn, error) {
	if f.isDown() {
		return nil, errDown
	}
	server, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return f.connect(server)
}

var errDown = errors.New("redistest: the network is down")

// Inject adds a rule after the existing ones. The first rule that matches a command picks
// it, so a command meets at most one fault.
func (f *Faults) Inject(r Rule) *Injection {
	i := &Injection{rule: r, faults: f, left: r.Times, hit: make(chan struct{}), released: make(chan struct{})}
	if i.left == 0 {
		i.left = 1
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.injections = append(f.injections, i)
	return i
}

// Count returns how many commands with one of these names, or of any name if there are
// none, the clients have sent, whatever became of them. It includes the commands that
// clients send on a new connection (HELLO, CLIENT).
func (f *Faults) Count(names ...string) int {
	counts, sum := f.Counts(), 0
	for name, n := range counts {
		if len(names) == 0 || Named(names...)(Command{name}) {
			sum += n
		}
	}
	return sum
}

// Counts returns how many commands the clients have sent, by upper-case name.
func (f *Faults) Counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.counts)
}

// ResetCounts sets all counts to 0.
func (f *Faults) ResetCounts() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.counts)
}

// CutAll closes every connection and drops what is held on it. New connections can be made
// at once.
func (f *Faults) CutAll() {
	f.mu.Lock()
	links := slices.Collect(maps.Keys(f.links))
	f.mu.Unlock()
	for _, l := range links {
		l.cut()
	}
}

// Forget makes the network forget every connection that there is, as a NAT or a load balancer does
// with those that were idle: what either side sends on them is swallowed, and nobody is told.
func (f *Faults) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for l := range f.links {
		l.forgotten.Store(true)
	}
}

// Down closes every connection and refuses new ones until Up.
func (f *Faults) Down() {
	f.mu.Lock()
	f.down = true
	f.mu.Unlock()
	f.CutAll()
}

// Up ends Down.
func (f *Faults) Up() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = false
}

// Latency makes what servers send from now on, handshakes and messages included, arrive d later,
// in its order. Requests arrive at once.
func (f *Faults) Latency(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = d
}

func (f *Faults) latency() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.late
}

func (f *Faults) isDown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.down
}

// connect makes a new link to server and returns the client's end.
func (f *Faults) connect(server net.Conn) (net.Conn, error) {
	client, inner := net.Pipe()
	l := newLink(f, inner, server)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down { // since the dialer checked; the cleanup may be waiting already
		_ = server.Close()
		return nil, errDown
	}
	f.links[l] = struct{}{}
	f.wg.Go(l.carryRequests)
	f.wg.Go(l.carryReplies)
	f.wg.Go(l.deliver)
	return &clientConn{Conn: client, server: server}, nil
}

// sent counts a request and returns the injection that strikes it, or nil.
func (f *Faults) sent(c Command) *Injection {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[c.Name()]++
	return f.pick(c, false)
}

// pushed returns the injection that strikes a message, or nil.
func (f *Faults) pushed(c Command) *Injection {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pick(c, true)
}

// pick is called with mu held.
func (f *Faults) pick(c Command, message bool) *Injection {
	for _, i := range f.injections {
		if i.left == 0 || i.rule.Fault.ofMessages() != message || (i.rule.Match != nil && !i.rule.Match(c)) {
			continue
		}
		i.left = max(i.left-1, -1)
		if i.hits++; i.hits == 1 {
			close(i.hit)
		}
		return i
	}
	return nil
}
