package inbox

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// init silences go-redis, which reports every refused connection by itself:
// here they are meant.
func init() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// timeout bounds every wait for something that happens within milliseconds, or
// within the seconds that the package's own bounds allow.
const timeout = time.Minute

// event is a message, or news that a channel's subscription stands.
type event struct{ resumed, message string }

// owner owns an inbox and remembers what it was told.
type owner struct {
	testing.TB
	*Inbox
	cancel context.CancelFunc

	mu      sync.Mutex
	events  []event       // guarded by mu
	logged  bytes.Buffer  // guarded by mu
	changed chan struct{} // capacity 1
}

// open returns the owner of a new inbox, which is closed when the test ends.
func open(t testing.TB, rdb redis.UniversalClient) *owner {
	o := &owner{TB: t, changed: make(chan struct{}, 1)}
	deliver := func(payload string) { o.note(event{message: payload}) }
	resumed := func(channel string) { o.note(event{resumed: channel}) }
	o.Inbox, o.cancel = opened(rdb, deliver, resumed, slog.New(slog.NewTextHandler(o, nil)))
	t.Cleanup(o.Close)
	return o
}

// opened returns a new inbox, and what ends it.
func opened(rdb redis.UniversalClient, deliver, resumed func(string), log *slog.Logger) (*Inbox, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	return Open(ctx, rdb, deliver, resumed, log), cancel
}

// Close ends the inbox and waits.
func (o *owner) Close() {
	o.cancel()
	o.Wait()
}

// patiently is open for tests in which no connection breaks unseen: on a busy machine neither
// an attempt nor a silence is too long.
func patiently(w *world, rdb redis.UniversalClient) *owner {
	o := open(w, rdb)
	if w.real != nil {
		o.trying, o.quiet = time.Hour, time.Hour
	}
	return o
}

func (o *owner) note(e event) {
	o.mu.Lock()
	o.events = append(o.events, e)
	o.mu.Unlock()
	signal(o.changed)
}

// Write implements io.Writer, for the log.
func (o *owner) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.logged.Write(line)
}

// logs returns how many lines of a level were logged.
func (o *owner) logs(level string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Count(o.logged.String(), "level="+level)
}

func (o *owner) all() []event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events)
}

func (o *owner) count(e event) (n int) {
	for _, other := range o.all() {
		if other == e {
			n++
		}
	}
	return n
}

// connections returns how many connections the inbox has, or is to make.
func (o *owner) connections() int {
	o.Inbox.mu.Lock()
	defer o.Inbox.mu.Unlock()
	return len(o.nodes)
}

// await returns when e has been noted n times.
func (o *owner) await(e event, n int) {
	o.Helper()
	o.until(fmt.Sprintf("%+v for the %d. time", e, n), func() bool { return o.count(e) >= n })
}

// until returns when ok does, which depends on events.
func (o *owner) until(what string, ok func() bool) {
	o.Helper()
	late := time.After(timeout)
	for !ok() {
		select {
		case <-o.changed:
		case <-late:
			o.mu.Lock()
			defer o.mu.Unlock()
			o.Fatalf("waited %v for %s; heard %.1000v; logged: %s", timeout, what, o.events, &o.logged)
		}
	}
}

// listen subscribes to channels and returns when they stand.
func (o *owner) listen(channels ...string) {
	o.Helper()
	for _, c := range channels {
		o.Subscribe(c)
	}
	for _, c := range channels {
		o.await(event{resumed: c}, 1)
	}
}

// eventually waits for something that only asking can tell.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for late := time.Now().Add(timeout); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("waited %v for %s", timeout, what)
		}
	}
}

// world is a server behind a network that fails on command: the embedded store in
// a bubble, or a real one.
type world struct {
	*testing.T
	net      *redistest.Faults
	rdb      *redis.Client
	embedded *miniredis.Miniredis // nil: real
	real     *redistest.Server    // nil: embedded
}

// everywhere runs a test on the embedded store and on a real server.
func everywhere(t *testing.T, test func(*world)) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) { inBubble(t, test) })
	t.Run("real", func(t *testing.T) { onServer(t, test) })
}

func inBubble(t *testing.T, test func(*world)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newEmbedded(t)) })
}

// newEmbedded is for use in a bubble.
func newEmbedded(t *testing.T) *world {
	w := &world{T: t, embedded: redistest.NewEmbedded(t)}
	w.connect(redistest.Embedded(w.embedded))
	return w
}

func onServer(t *testing.T, test func(*world)) {
	t.Parallel()
	w := &world{T: t, real: redistest.Start(t)}
	w.connect(nil)
	test(w)
}

func (w *world) connect(dial redistest.DialFunc) {
	w.net = redistest.NewFaults(w)
	w.rdb = w.client(func(o *redis.Options) { o.Dialer = w.net.Dialer(dial) })
}

// client returns another client, which is not behind the network.
func (w *world) client(opts ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{Addr: "127.0.0.1:1"}
	if w.real != nil {
		o.Network, o.Addr = "unix", w.real.Socket()
		redistest.Patient(o)
	} else {
		o.Dialer = redistest.Embedded(w.embedded)
	}
	for _, opt := range opts {
		opt(o)
	}
	c := redis.NewClient(o)
	w.Cleanup(func() { _ = c.Close() })
	return c
}

// publish sends a message past the network and fails the test unless n
// subscriptions get it.
func (w *world) publish(channel, payload string, n int64) {
	w.Helper()
	var got int64
	if w.embedded != nil {
		got = int64(w.embedded.Publish(channel, payload))
	} else {
		got = w.real.Do(w, "PUBLISH", channel, payload).(int64)
	}
	if got != n {
		w.Errorf("a message for %.40q reached %d subscriptions, want %d", channel, got, n)
	}
}

// channels returns to how many channels anybody is subscribed.
func (w *world) channels() int {
	if w.embedded != nil {
		return len(w.embedded.PubSubChannels(""))
	}
	return len(w.real.Do(w, "PUBSUB", "CHANNELS").([]any))
}
