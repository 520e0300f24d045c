// Package session connects one process to one Redis: it has the process's name, its
// subscription, and the claims on each semaphore that the process uses.
//
// It wires other packages together. The life of a claim is a state machine
// (internal/claim); operations are sent by group commit (internal/commit); renewals,
// heartbeats and time-outs are deadlines (internal/keeper); messages come from
// internal/inbox. A Semaphore holds the lock and makes the calls.
package session

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/inbox"
	"github.com/berth-go/berth/internal/protocol"
)

// mostOpening is how long the first requests wait until messages can arrive.
const mostOpening = claim.TryTimeout / 2

// Session is safe for concurrent use.
type Session struct {
	rdb     redis.UniversalClient
	store   *protocol.Store
	log     *slog.Logger
	box     *inbox.Inbox
	clock   *clock.Server // nil in a cluster, where each node has its own
	workers *workers

	channel string        // the beginning of its ids, and the only part of them in the names of channels
	newID   func() string // of a claim

	opening sync.Once
	asking  atomic.Bool     // the eviction policy is being asked for
	again   chan struct{}   // there is a new reason to ask for it; capacity 1
	soon    atomic.Bool     // it is about to be
	asked   atomic.Int64    // when it was last asked for because of a subscription; 0: never
	learnt  atomic.Int64    // when it was last asked for; 0: never
	policy  policyAnswer    // guarded by asking; the last answer
	heard   atomic.Int64    // the clock.Instant of the last answer or message; 0: none yet
	unwell  atomic.Int64    // when a failed renewal was last logged; 0: never
	ctx     context.Context //nolint:containedctx // the session's life
	cancel  context.CancelFunc
	closed  chan struct{} // Close has done its work
	shards  shards        // in a cluster

	mu      sync.Mutex
	sems    map[string]weak.Pointer[Semaphore] // guarded by mu; by key
	live    map[*Semaphore]struct{}            // guarded by mu; those with claims
	closing bool                               // guarded by mu
}

// New returns a session. It sends nothing.
func New(rdb redis.UniversalClient, prefix string, log *slog.Logger) *Session {
	channel, secret := randomName()
	s := &Session{
		rdb: rdb, log: log, channel: channel, newID: ids(channel + "." + secret), again: make(chan struct{}, 1),
		closed: make(chan struct{}),
		sems:   map[string]weak.Pointer[Semaphore]{}, live: map[*Semaphore]struct{}{},
	}
	s.store = protocol.NewStore(rdb, prefix, channel, os.Getpid(), hostname())
	s.store.OnUndeclared(func() {
		log.Warn("berth: this Cluster wants all keys of a script declared; from now on a call is also refused while its slot moves, although it needs one key alone")
	})
	if !s.store.Sharded() {
		s.clock = new(clock.Server)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.workers = newWorkers(s.ctx, s.store)
	s.box = inbox.Open(s.ctx, rdb, s.hear, s.resumed, log)
	s.shards.subscribe = func(key string) { s.box.Subscribe(s.store.Channel(key)) }
	s.shards.unsubscribe = func(key string) { s.box.Unsubscribe(s.store.Channel(key)) }
	return s
}

// Store returns the store, for what needs no claims.
func (s *Session) Store() *protocol.Store { return s.store }

// randomName returns 128 random bits in two parts: no two sessions share both, and the
// second cannot be guessed from the first. They are letters and digits, because people type
// ids on command lines.
func randomName() (channel, secret string) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	name := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
	return name[:8], name[8:]
}

// hostname returns this machine's name for operators.
func hostname() string {
	name, _ := os.Hostname()
	return plain(name)
}

// plain returns name, cut down to what is safe in a record.
func plain(name string) string {
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

// ids returns a function that makes the ids of a session's claims: its name and a number.
func ids(name string) func() string {
	var last atomic.Uint64
	return func() string {
		b := append(append(make([]byte, 0, 40), name...), '-')
		return string(strconv.AppendUint(b, last.Add(1), 36))
	}
}

// NewHandle returns an id for a lease that is to be adopted. Knowing it is enough for that.
func NewHandle() string {
	channel, secret := randomName()
	return channel + "." + secret
}

// Semaphore returns the semaphore called name. It returns the same one for as long as that
// is referenced.
func (s *Session) Semaphore(name string) *Semaphore {
	key := s.store.Key(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if sem := s.sems[key.State].Value(); sem != nil {
		return sem
	}
	sem := newSemaphore(s, name, key)
	s.sems[key.State] = weak.Make(sem)
	runtime.AddCleanup(sem, s.forget, key.State)
	return sem
}

// forget removes the entry of a semaphore that was garbage collected, unless it has a
// successor.
func (s *Session) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sems[key].Value() == nil {
		delete(s.sems, key)
	}
}

func (s *Session) find(key string) *Semaphore {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sems[key].Value()
}

// open makes the session ready on its first use. It subscribes before the first request is sent, or
// the message of a grant could be lost; requests stand in line meanwhile, in the order in which they
// came. That lasts for at most mostOpening, and Redis may fail: then requests will, too, and without
// messages waiting is only slower.
func (s *Session) open() {
	s.opening.Do(func() {
		s.workers.hold()
		go s.prepare()
	})
}

func (s *Session) prepare() {
	defer s.workers.letGo()
	defer time.AfterFunc(mostOpening, s.workers.letGo).Stop()
	if !s.store.Sharded() {
		defer func(tried <-chan struct{}) {
			select {
			case <-tried:
			case <-s.ctx.Done():
			}
		}(s.box.Subscribe(s.store.Channel("")))
	}
	s.askPolicy()
}

// active returns the semaphores that have claims.
func (s *Session) active() []*Semaphore {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Semaphore, 0, len(s.live))
	for sem := range s.live {
		all = append(all, sem)
	}
	return all
}

// enlist notes that sem has claims. It fails with claim.ErrClosed when the session is closed.
func (s *Session) enlist(sem *Semaphore) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return claim.ErrClosed
	}
	s.live[sem] = struct{}{}
	return nil
}

// delist notes that sem has none any more.
func (s *Session) delist(sem *Semaphore) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, sem)
}

// Close releases all leases and cancels all waits, for at most claim.Timeout, and stops
// everything. Claims end with claim.ErrClosed. A second Close waits for the first.
func (s *Session) Close() {
	s.mu.Lock()
	first := !s.closing
	s.closing = true
	s.mu.Unlock()
	if !first {
		<-s.closed
		return
	}
	defer close(s.closed)
	s.opening.Do(func() {}) // who comes now is refused, and opens nothing
	timeout, stop := context.WithTimeout(context.Background(), claim.Timeout)
	defer stop()
	var drained []<-chan struct{}
	for _, sem := range s.active() {
		drained = append(drained, sem.drain())
	}
	for _, done := range drained {
		select {
		case <-done:
		case <-timeout.Done():
		}
	}
	if timeout.Err() != nil {
		s.log.Warn("berth: closed before everything was given back; the rest will expire")
	}
	s.cancel()
	for _, sem := range s.active() {
		sem.stop()
	}
	s.shards.stop()
	s.box.Wait()
}
