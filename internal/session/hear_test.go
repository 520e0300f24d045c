package session

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth/internal/redistest"
)

// TestGrantByMessageIsTrustedFromTheHeartbeat: a message has no time of its own.
// The lease is trusted for one heartbeat TTL from when the last heartbeat was
// sent that the server acknowledged, and no longer.
func TestGrantByMessageIsTrustedFromTheHeartbeat(t *testing.T) {
	inWorld(t, func(w *world) {
		holder := w.acquire(w.open().Semaphore("s"), terms(1))
		claim, done := w.waiting(w.session.Semaphore("s"), terms(1))
		beat := w.net.Inject(redistest.Rule{
			Match: func(c redistest.Command) bool { return strings.Contains(strings.Join(c, " "), " H") },
			Fault: redistest.DelayReply,
		})
		<-beat.Hit()
		sent := time.Now()
		<-time.After(50 * time.Millisecond) // of the bubble: the acknowledgement is slow
		beat.Release()
		<-time.After(time.Second)
		if err := holder.Release(); err != nil {
			w.Error(err)
		}
		if err := <-done; err != nil {
			w.Fatal(err)
		}
		most := sent.Add(claim.Terms.Heartbeat)
		if until := claim.Trust().Time(); until.After(most) || until.Before(most.Add(-time.Second)) {
			w.Errorf("trusted until %v, the heartbeat was good until %v", until, most)
		}
	})
}

// TestGrantOfAForgottenClaim: the message may be older than a Detach, and the
// lease another process's by now. It is left alone.
func TestGrantOfAForgottenClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.session.Semaphore("s")
		lease := w.acquire(s, terms(2))
		g := lease.Grant()
		if err := lease.Detach(w.Context()); err != nil {
			w.Fatal(err)
		}
		w.session.hear(fmt.Sprintf("%s\ng %s %d %d %d", s.keys.State, g.ID, g.Token, g.Slot, g.Limit))
		synctest.Wait()
		snap, err := w.session.store.Inspect(w.Context(), s.keys, true)
		if err != nil || snap.Holders != 1 || snap.Leases[0].ID != g.ID {
			w.Errorf("%v, the server has %+v", err, snap)
		}
	})
}

// TestMessagesOfOthersAreIgnored: whoever can publish can write anything.
func TestMessagesOfOthersAreIgnored(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.session.Semaphore("s")
		lease := w.acquire(s, terms(1))
		waiter, _ := w.waiting(s, terms(1))
		before := w.net.Count("EVALSHA")
		for _, text := range []string{
			"", "\n", "x", "nonsense", "berth:{other}\ng a 1 2 3", s.keys.State, s.keys.State + "\n", s.keys.State + "\n\n\n",
			s.keys.State + "\ng", s.keys.State + "\ng a", s.keys.State + "\ng other.1 1 0 1", s.keys.State + "\nx other.1 2",
			s.keys.State + "\ny " + waiter.id + " 1", s.keys.State + "\ng " + waiter.id + " 1",
			s.keys.State + "\nt " + lease.Grant().ID + " 1", strings.Repeat(s.keys.State+"\n", 1000),
		} {
			w.session.hear(text)
		}
		synctest.Wait()
		if lease.now() != held || waiter.now() != queued {
			w.Errorf("lease is %d, waiter is %d", lease.now(), waiter.now())
		}
		if calls := w.net.Count("EVALSHA") - before; calls != 0 {
			w.Errorf("they caused %d calls", calls)
		}
	})
}

// TestDroppedWaiterAsksAgain: a waiter that was away for too long was dropped
// from the queue. It waits on under a new id, for the old one may have a
// tombstone.
func TestDroppedWaiterAsksAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		other := redistest.NewFaults(w.T)
		holder := w.acquire(w.openVia(other).Semaphore("s"), terms(1))
		claim, done := w.waiting(w.session.Semaphore("s"), terms(1))
		id := claim.id
		w.net.Down()
		<-time.After(claim.Terms.Heartbeat + time.Second)
		w.net.Up()
		<-time.After(5 * time.Second)
		if claim.now() != queued || claim.Grant().ID == id {
			w.Errorf("state %d, id %s, before %s", claim.now(), claim.Grant().ID, id)
		}
		if err := holder.Release(); err != nil {
			w.Error(err)
		}
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
}

// TestIdleSessionIsSilent: what holds nothing and waits for nothing sends nothing.
func TestIdleSessionIsSilent(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.session.Semaphore("s")
		if err := w.acquire(s, terms(1)).Release(); err != nil {
			w.Error(err)
		}
		w.net.ResetCounts()
		<-time.After(time.Hour)
		if n := w.net.Count() - w.net.Count("PING"); n != 0 {
			w.Errorf("an idle hour: %v", w.net.Counts())
		}
		if len(w.session.active()) != 0 {
			w.Error("an idle semaphore counts as active")
		}
	})
}

// TestSemaphoreIsShared: claims of one name must meet in one place.
func TestSemaphoreIsShared(t *testing.T) {
	inWorld(t, func(w *world) {
		s, again, other := w.session.Semaphore("s"), w.session.Semaphore("s"), w.session.Semaphore("t")
		if s != again || s == other {
			w.Error("semaphores are told apart by something else than their name")
		}
	})
}

// TestCloseWhileRedisIsAway: it does not wait for ever, and everybody hears.
func TestCloseWhileRedisIsAway(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.session.Semaphore("s")
		lease := w.acquire(s, terms(1))
		ended := make(chan error, 1)
		lease.OnEnd(func(err error) { ended <- err })
		_, done := w.waiting(s, terms(1))
		w.net.Down()
		start := time.Now()
		w.session.Close()
		if took := time.Since(start); took > Patience+time.Second {
			w.Errorf("Close took %v", took)
		}
		for what, ch := range map[string]<-chan error{"lease": ended, "waiter": done} {
			if err := <-ch; err == nil || err != ErrClosed && err != context.Canceled {
				w.Errorf("%s: %v", what, err)
			}
		}
		if _, err := s.Acquire(w.Context(), terms(1), false, nil); err != ErrClosed {
			w.Errorf("Acquire after Close: %v", err)
		}
	})
}
