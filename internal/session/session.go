// Package session is one process's presence on one Redis: its identity, its
// inbox, and for every semaphore that it uses the claims it has there.
//
// The way of a claim, from the first request to the end, is the table in
// claim.go: semaphore.go and holder.go are what callers ask for, settle.go is what
// Redis answers, hear.go is what messages tell. Requests travel by group commit
// (commit.go): while a call to Redis is in flight the next operations of that
// semaphore gather, and one call then carries them all; releases do not wait. The keeper (keeper.go)
// renews leases, heartbeats waiters, asks when something may have run out, and
// ends what can no longer be trusted.
package session

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/inbox"
	"github.com/berth-go/berth/internal/protocol"
)

// How long things may take. They bound waiting for Redis, never waiting in line.
const (
	// Patience is how long Acquire, Release and the like insist while Redis does
	// not answer or refuses for the moment.
	Patience = 5 * time.Second
	// TryPatience is the same for requests that do not wait in line.
	TryPatience = 2 * time.Second
	// attempt bounds one call; one third of the TTL does too. Then another call
	// starts on another connection, and the first has an unknown outcome.
	mostAttempt  = 2 * time.Second
	leastAttempt = 100 * time.Millisecond
	// Pauses between failing calls grow from the first to the second.
	leastPause = 10 * time.Millisecond
	mostPause  = time.Second
)

// A copy of a request must be past its latest time before its tombstone is: what
// Acquire may insist, the pause before its last call and that call together stay
// below protocol.Late, or this does not compile. docs/model.md, row LATE=2, shows
// what would happen.
const _ = uint(protocol.Late - Patience - mostPause - mostPause/2 - mostAttempt)

// ErrClosed: the session was closed.
var ErrClosed = errors.New("session is closed")

// Session is safe for concurrent use.
type Session struct {
	store   *protocol.Store
	rdb     redis.UniversalClient
	log     *slog.Logger
	id      string
	seq     atomic.Uint64
	opening sync.Once
	opened  chan struct{}
	ctx     context.Context //nolint:containedctx // the session's life
	cancel  context.CancelFunc
	clock   *serverClock // nil in a cluster, where each node has its own
	crew    *crew
	bounded bool // a call that gets no answer ends within Patience

	outcomes sync.Pool // of chan error: for the outcome of a release; a test's bubble may not share it with others
	mu       sync.Mutex
	sems     map[string]weak.Pointer[Semaphore] // guarded by mu; by state key
	live     map[*Semaphore]struct{}            // guarded by mu; those with claims
	closed   bool                               // guarded by mu
	boxes    map[string]*inbox.Inbox            // guarded by mu; by state key in a cluster, else one, by ""
}

// New returns a session that has not sent anything yet.
func New(rdb redis.UniversalClient, prefix string, log *slog.Logger) *Session {
	s := &Session{
		rdb: rdb, log: log, id: randomID(), opened: make(chan struct{}),
		sems: map[string]weak.Pointer[Semaphore]{}, live: map[*Semaphore]struct{}{}, boxes: map[string]*inbox.Inbox{},
	}
	s.store = protocol.NewStore(rdb, prefix, s.id, os.Getpid(), hostname())
	if !s.store.Sharded() {
		s.clock = new(serverClock)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.crew = newCrew(s.ctx.Done())
	s.bounded = s.store.Bounded(Patience)
	s.outcomes.New = func() any { return make(chan error, 1) }
	return s
}

// Store gives access to what needs no claims: inspection and administration.
func (s *Session) Store() *protocol.Store { return s.store }

// randomID returns 128 random bits: no two sessions share it. People type ids on
// command lines, so they are letters and digits.
func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// hostname is for operators to read; it is cut down to what is safe in a record.
func hostname() string {
	name, _ := os.Hostname()
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return -1
	}, name)
	if name == "" {
		return "unknown"
	}
	return name[:min(len(name), 48)]
}

func (s *Session) newID() string {
	b := append(make([]byte, 0, 48), s.id...)
	return string(strconv.AppendUint(append(b, '.'), s.seq.Add(1), 36))
}

// Semaphore returns the semaphore called name; the same one for as long as
// anybody uses it.
func (s *Session) Semaphore(name string) *Semaphore {
	keys := s.store.Keys(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if sem := s.sems[keys.State].Value(); sem != nil {
		return sem
	}
	sem := &Semaphore{session: s, name: name, keys: keys, claims: map[string]*Claim{}, clock: s.clock}
	if sem.clock == nil {
		sem.clock = new(serverClock)
	}
	s.sems[keys.State] = weak.Make(sem)
	runtime.AddCleanup(sem, s.forget, keys.State)
	return sem
}

// forget removes what belongs to a collected semaphore, unless it has a successor.
func (s *Session) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sems[key].Value() != nil {
		return
	}
	delete(s.sems, key)
	if box := s.boxes[key]; box != nil {
		delete(s.boxes, key)
		go box.Close()
	}
}

// openShard subscribes to the channel of one semaphore: in a cluster a message
// reaches only the node that has its slot. It returns nil when the session is
// closed. The inbox does not keep the semaphore alive.
func (s *Session) openShard(k protocol.Keys) *inbox.Inbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.boxes[k.State] == nil {
		resumed := func() {
			if sem := s.find(k.State); sem != nil {
				sem.recheck()
			}
		}
		s.boxes[k.State] = inbox.Open(s.rdb, s.store.Channel(k), true, s.hear, resumed, s.log)
	}
	return s.boxes[k.State]
}

func (s *Session) find(key string) *Semaphore {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sems[key].Value()
}

// open makes the session ready on its first use: subscribed before the first
// request, or a grant could be announced to nobody. It does not fail when Redis
// does; requests will, and waiting works without messages, only slower.
func (s *Session) open(ctx context.Context) error {
	s.opening.Do(func() { go s.prepare() })
	select {
	case <-s.opened:
		return nil
	default:
	}
	select {
	case <-s.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Session) prepare() {
	defer close(s.opened)
	if !s.store.Sharded() {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return
		}
		box := inbox.Open(s.rdb, s.store.Channel(protocol.Keys{}), false, s.hear, s.recheck, s.log)
		s.boxes[""] = box
		s.mu.Unlock()
		defer func() { <-box.Tried() }()
	}
	ctx, cancel := context.WithTimeout(s.ctx, mostAttempt)
	defer cancel()
	evicts, policy, err := s.store.Evicts(ctx)
	s.store.Evicting(evicts)
	switch {
	case err != nil:
		s.log.Info("berth: eviction policy is not known; keys get no TTL while they matter", "error", err)
	case strings.HasPrefix(policy, "allkeys"):
		s.log.Warn("berth: this server may evict any key, so leases can vanish under memory pressure; use noeviction", "policy", policy)
	}
}

// hear takes a message: the state key, then a line for each event.
func (s *Session) hear(payload string) {
	key, lines, _ := strings.Cut(payload, "\n")
	if sem := s.find(key); sem != nil {
		sem.hear(lines)
	}
}

// recheck has all waiters look at the state, and all holders too: what was
// published while nobody listened is lost.
func (s *Session) recheck() {
	for _, sem := range s.active() {
		sem.recheck()
	}
}

func (s *Session) active() []*Semaphore {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Semaphore, 0, len(s.live))
	for sem := range s.live {
		all = append(all, sem)
	}
	return all
}

// enlist notes that sem has claims, or no longer; it fails when the session is
// closed.
func (s *Session) enlist(sem *Semaphore, live bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !live {
		delete(s.live, sem)
		return nil
	}
	if s.closed {
		return ErrClosed
	}
	s.live[sem] = struct{}{}
	return nil
}

// Close gives back what is held and cancels what waits, for at most Patience,
// and stops everything. Claims end with ErrClosed. A second Close does nothing.
func (s *Session) Close() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return
	}
	s.opening.Do(func() { close(s.opened) })
	var drained []<-chan struct{}
	for _, sem := range s.active() {
		drained = append(drained, sem.drain())
	}
	timeout := time.After(Patience)
	for _, done := range drained {
		select {
		case <-done:
		case <-timeout:
			s.log.Warn("berth: closed before everything was given back; the rest expires by itself")
			timeout = closedChan
		}
	}
	s.cancel()
	for _, sem := range s.active() {
		sem.stop()
	}
	for _, box := range s.takeBoxes() {
		box.Close()
	}
	<-s.opened
}

func (s *Session) takeBoxes() []*inbox.Inbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	boxes := slices.Collect(maps.Values(s.boxes))
	clear(s.boxes)
	return boxes
}

// closedChan makes a time-out that has passed stay so.
var closedChan = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// serverClock relates the server's clock to the local monotonic one.
type serverClock struct {
	mu     sync.Mutex
	server int64         // ms; 0: not known yet
	sent   clock.Instant // of the call whose reply told it
	got    clock.Instant
}

// known reports whether the server's clock was ever seen.
func (c *serverClock) known() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server != 0
}

// latest returns the latest time that the server's clock can show at instant i.
func (c *serverClock) latest(i clock.Instant) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server + i.Sub(c.sent).Milliseconds() + 1
}

// see takes the server's time from a reply. It returns by how much the server's
// clock was stepped since the last one; 0 when that can be explained by delays.
func (c *serverClock) see(server int64, sent, got clock.Instant) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var step int64
	if c.server != 0 {
		least := c.server + sent.Sub(c.got).Milliseconds() - 1
		most := c.server + got.Sub(c.sent).Milliseconds() + 1
		switch {
		case server < least:
			step = server - least
		case server > most:
			step = server - most
		}
	}
	c.server, c.sent, c.got = server, sent, got
	return time.Duration(step) * time.Millisecond
}
