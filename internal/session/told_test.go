package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/protocol"
)

// acquire returns a lease of a semaphore with room for two.
func (s *server) acquire() *Request {
	s.Helper()
	of := *terms(true)
	of.Limit = 2
	r, err := s.Semaphore("n").Acquire(context.Background(), &of, false, nil)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// TestEachCallerIsToldOnce: who is told again, and does not listen, would hold up everybody.
func TestEachCallerIsToldOnce(t *testing.T) {
	inBubble(t, func(s *server) {
		r := s.acquire()
		for range 5 {
			if err := r.Renew(context.Background()); err != nil {
				s.Error(err)
			}
		}
		if err := r.Release(); err != nil {
			s.Error(err)
		}
		if err := r.Renew(context.Background()); !errors.Is(err, claim.ErrReleased) {
			s.Errorf("after the release: %v", err)
		}
	})
}

// TestAnswerIsASignOfLife: a request that has no answer goes on while others have theirs, and ends when
// these have none.
func TestAnswerIsASignOfLife(t *testing.T) {
	inBubble(t, func(s *server) {
		r := s.acquire()
		s.on("evalsha", func(ctx context.Context, cmd redis.Cmder, pass func() error) error {
			if verbOf(cmd) == "A" {
				return hang(ctx, cmd)
			}
			return pass()
		})
		const answered = 20 * time.Second
		began := time.Now()
		go func() {
			<-time.After(time.Second / 10) // what travels with the request would hang, too
			for time.Since(began) < answered {
				_ = r.Renew(context.Background())
				<-time.After(time.Second)
			}
		}()
		_, err := s.Semaphore("other").Acquire(context.Background(), terms(true), false, nil)
		const asked = claim.Timeout / 2 // later, when a call is given up, an idle connection may be asked, and answers
		if took := time.Since(began); !errors.Is(err, protocol.ErrUnknown) || took < answered || took > answered+asked+claim.Timeout {
			s.Errorf("%v after %v", err, took)
		}
	})
}

// TestMessageIsASignOfLife: while messages come, Redis is not away.
func TestMessageIsASignOfLife(t *testing.T) {
	inBubble(t, func(s *server) {
		s.acquire()
		<-time.After(time.Second)
		before := s.alive()
		if s.hear("of something else"); s.alive().Sub(before) < time.Second/2 {
			s.Error("it is not one")
		}
	})
}

// TestFailedRenewalIsWarnedOf, and nothing else that is tried again.
func TestFailedRenewalIsWarnedOf(t *testing.T) {
	inBubble(t, func(s *server) {
		refused := func(_ context.Context, cmd redis.Cmder, _ func() error) error { return refuse(cmd, "LOADING") }
		s.onFirst("A", refused)
		r := s.acquire()
		if s.warnings() > 0 {
			s.Errorf("a refused acquire: %s", &s.logged)
		}
		s.onFirst("R", refused)
		<-time.After(ttl)
		if s.warnings() != 1 || !r.Valid() {
			s.Errorf("a refused renewal: %d warnings, the lease is valid: %v", s.warnings(), r.Valid())
		}
	})
}

// TestChangedRateIsWarnedOf, and one that stays is not.
func TestChangedRateIsWarnedOf(t *testing.T) {
	const told = "a declaration changed the rate in force"
	inBubble(t, func(s *server) {
		declare := func(n int) {
			of := *terms(false)
			of.Limit = 9
			of.Rates, _ = protocol.JoinRates(protocol.Rate{N: n, Per: time.Hour})
			if _, err := s.Semaphore("n").Acquire(context.Background(), &of, false, nil); err != nil {
				s.Fatal(err)
			}
		}
		declare(10)
		declare(10)
		if s.warned(told) {
			s.Errorf("it is the same: %s", &s.logged)
		}
		declare(20)
		if !s.warned(told) {
			s.Errorf("it is not told: %s", &s.logged)
		}
	})
}

// TestNewSubscriptionAsksAtOnce: what was told meanwhile was lost, of holders too.
func TestNewSubscriptionAsksAtOnce(t *testing.T) {
	inBubble(t, func(s *server) {
		s.acquire()
		before := len(s.sent("evalsha"))
		s.resumed(s.store.Channel(""))
		<-time.After(time.Second)
		if n := len(s.sent("evalsha")) - before; n != 1 {
			s.Errorf("%d calls", n)
		}
	})
}

// TestCloseGivesBackEveryLease, also when another one of the semaphore was given back before.
func TestCloseGivesBackEveryLease(t *testing.T) {
	inBubble(t, func(s *server) {
		first, second := s.acquire(), s.acquire()
		if err := first.Release(); err != nil {
			s.Error(err)
		}
		if s.Close(); second.Valid() || len(s.onServer().Leases) > 0 || s.warnings() > 0 {
			s.Errorf("left: %+v, %s", s.onServer().Leases, &s.logged)
		}
	})
}

// TestNothingIsSentAfterClose, although Redis has taken nothing back by then.
func TestNothingIsSentAfterClose(t *testing.T) {
	inBubble(t, func(s *server) {
		s.acquire()
		s.on("evalsha", func(ctx context.Context, cmd redis.Cmder, _ func() error) error { return hang(ctx, cmd) })
		began := time.Now()
		if s.Close(); time.Since(began) != claim.Timeout {
			s.Errorf("it took %v", time.Since(began))
		}
		if !s.warned("closed before everything was given back") {
			s.Errorf("it is not told: %s", &s.logged)
		}
		synctest.Wait()
		before := len(s.sent("evalsha"))
		<-time.After(time.Hour)
		if n := len(s.sent("evalsha")) - before; n > 0 {
			s.Errorf("%d calls after it", n)
		}
	})
}

// TestClosedUnused: the first request of a session that is closed fails at once, and opens nothing.
func TestClosedUnused(t *testing.T) {
	inBubble(t, func(s *server) {
		s.Close()
		began := time.Now()
		_, err := s.Semaphore("n").Acquire(context.Background(), terms(true), false, nil)
		if took := time.Since(began); !errors.Is(err, claim.ErrClosed) || took > 0 {
			s.Errorf("%v after %v", err, took)
		}
		synctest.Wait()
		if asked := s.sent("info"); len(asked) > 0 {
			s.Error("it asked for the policy")
		}
	})
}

// TestUnusedSemaphoreIsDrained at once.
func TestUnusedSemaphoreIsDrained(t *testing.T) {
	inBubble(t, func(s *server) {
		select {
		case <-s.Semaphore("n").drain():
		default:
			s.Error("Close would wait for it")
		}
	})
}

// TestWaiterThatPanicsLeavesTheQueue, and at once.
func TestWaiterThatPanicsLeavesTheQueue(t *testing.T) {
	inBubble(t, func(s *server) {
		s.acquire()
		s.acquire()
		func() {
			defer func() { _ = recover() }()
			of := *terms(true)
			of.Limit = 2
			_, err := s.Semaphore("n").Acquire(context.Background(), &of, false, func(claim.Place) { panic("its place") })
			s.Errorf("it went on: %v", err)
		}()
		<-time.After(100 * time.Millisecond)
		if snap := s.onServer(); len(snap.Queue) > 0 {
			s.Errorf("it is still in the queue: %+v", snap.Queue)
		}
	})
}

// TestPlainNames of hosts are told as they are, and others without what would not be safe.
func TestPlainNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"az-AZ_09.example": "az-AZ_09.example", "with space;and=more/": "withspaceandmore", "é": "unknown", "": "unknown",
		strings.Repeat("x", 50): strings.Repeat("x", 48),
	} {
		if got := plain(name); got != want {
			t.Errorf("%q is told as %q", name, got)
		}
	}
}
