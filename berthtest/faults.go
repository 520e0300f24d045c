package berthtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/look"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// Down makes Redis unreachable: connections break, and new ones are refused until Up.
// The store keeps its data, and leases expire meanwhile as usual.
func (s *Store) Down() {
	if s.none() {
		return
	}
	s.mu.Lock()
	s.down, s.wasDown = true, true
	s.mu.Unlock()
	s.faults.Down()
}

// Up ends Down.
func (s *Store) Up() {
	if s.none() {
		return
	}
	s.mu.Lock()
	s.down = false
	s.mu.Unlock()
	s.faults.Up()
}

// Slow makes every command reach the store d after it was sent, including commands that
// are already under way; 0 ends that, and delivers them at once. Messages are not
// delayed. With a d above all time-outs Redis seems to hang: it accepts connections and
// does not answer.
func (s *Store) Slow(d time.Duration) {
	if s.none() {
		return
	}
	s.pace.set(d)
}

// DropMessages sets whether published messages are lost from now on. Clients then learn
// of a hand-off by their next heartbeat and of an eviction by their next renewal.
func (s *Store) DropMessages(drop bool) {
	if s.none() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case drop && s.drop == nil:
		s.drop = s.faults.Inject(redistest.Rule{Fault: redistest.DropMessage, Match: redistest.Named("message"), Times: -1})
	case !drop && s.drop != nil:
		s.drop.Stop()
		s.drop = nil
	}
}

// Lose ends a lease as if it had not been renewed in time: its permits are granted to
// the next waiter at once, and its holder is told. When Lose returns, the lease's
// context has ended with a *berth.LostError of reason LostExpired, or LostVanished when the
// lease was granted more than ten seconds ago, because the store remembers no longer why.
// After Down or Slow, it ends only when the holder learns of it. Lose fails the test if the
// lease is already over.
func (s *Store) Lose(lease *berth.Lease) {
	if s.none() {
		return
	}
	if err := s.expire(lease); err != nil {
		s.fail("berthtest: Lose: %v", err)
		return
	}
	if s.reachable() {
		_ = lease.Renew(context.Background()) // finds out
		<-lease.Context().Done()
	}
}

// Evict evicts a lease as berthadmin.Inspector.ForceEvict does: its permits are granted to the
// next waiter at once, and the context of its holder ends with berth.ErrEvicted when the
// message arrives. Evict fails the test if the lease is already over.
func (s *Store) Evict(lease *berth.Lease) {
	if s.none() {
		return
	}
	if err := s.apply(lease, protocol.Op{Verb: protocol.Evict, ID: lease.ID(), Flag: true}); err != nil {
		s.fail("berthtest: Evict: %v", err)
		return
	}
	if s.reachable() {
		_ = lease.Renew(context.Background()) // if the message was dropped
		<-lease.Context().Done()
	}
}

// reachable reports whether commands and answers pass without delay.
func (s *Store) reachable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.down && s.pace.get() == 0
}

// expire shortens the lease to a millisecond, and makes the store remove it then, unless
// somebody's call has done so. A renewal that comes in between has it begin again.
func (s *Store) expire(lease *berth.Lease) error {
	const least = time.Millisecond
	shorten := protocol.Op{Verb: protocol.Renew, ID: lease.ID(), TTL: least}
	remove := protocol.Op{Verb: protocol.Heartbeat, ID: lease.ID(), TTL: least}
	err := s.apply(lease, shorten)
	if err != nil {
		return err
	}
	for err == nil {
		<-time.After(2 * least)
		if err = s.apply(lease, remove); err == nil {
			err = s.apply(lease, shorten)
		}
	}
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}

var errOver = errors.New("the lease is over, or is of another store")

// apply runs an operation on a lease past all faults, as another process; errOver: there is
// none.
func (s *Store) apply(lease *berth.Lease, op protocol.Op) error {
	st := s.keeperOf(lease)
	if st == nil {
		return fmt.Errorf("lease %s of semaphore %q: %w", lease.ID(), lease.Name(), errOver)
	}
	_, err := st.Do(context.Background(), st.Key(lease.Name()), 0, []protocol.Op{op})
	return err
}

// keeperOf returns the protocol store for the lease's prefix; nil: the lease is not here.
func (s *Store) keeperOf(lease *berth.Lease) *protocol.Store {
	for _, key := range s.mini.Keys() {
		prefix, ok := strings.CutSuffix(key, ":{"+lease.Name()+"}")
		if !ok {
			continue
		}
		st := protocol.NewStore(s.admin, prefix, "berthtest", os.Getpid(), "berthtest")
		snap, err := look.New(st).Inspect(context.Background(), st.Key(lease.Name()), true)
		if err == nil && slices.ContainsFunc(snap.Leases, func(r look.Record) bool { return r.ID == lease.ID() }) {
			return st
		}
	}
	return nil
}

func panicf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
