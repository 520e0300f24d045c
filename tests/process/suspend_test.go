package process_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// A machine that was suspended goes on, and Redis was there all the time. These tests do not run
// beside each other: the clock is that of the whole process.

// sleeper is a client on such a machine, in a bubble.
type sleeper struct {
	*testenv.Env
	peer  *testenv.Peer
	ahead time.Duration // by how much the server's clock is ahead of the bubble's
	log   bytes.Buffer
}

func onASleeper(t *testing.T, body func(s *sleeper)) {
	t.Helper()
	testenv.Bubble(t, func(e *testenv.Env) {
		s := &sleeper{Env: e}
		s.peer = e.Peer(berth.Logger(slog.New(slog.NewTextHandler(&s.log, nil))))
		e.Embedded.SetTime(time.Now())
		body(s)
	})
}

// pass lets time pass, for client and server.
func (s *sleeper) pass(d time.Duration) {
	const step = 100 * time.Millisecond
	for ; d > 0; d -= step {
		s.Pass(min(d, step))
		s.Embedded.SetTime(time.Now().Add(s.ahead))
	}
}

// suspend suspends the machine for d. Nothing that runs in it notices.
func (s *sleeper) suspend(d time.Duration) {
	clock.Suspend(d)
	s.step(d)
}

// step steps the server's clock.
func (s *sleeper) step(d time.Duration) {
	s.ahead += d
	s.Embedded.SetTime(time.Now().Add(s.ahead))
}

// TestRequestsAfterASuspension: the first request, of any kind, is as good as any other.
func TestRequestsAfterASuspension(t *testing.T) {
	requests := map[string]func(s *sleeper, sem *berth.Semaphore, held *berth.Lease) error{
		"Acquire":    func(s *sleeper, sem *berth.Semaphore, _ *berth.Lease) error { return take(sem.Acquire(s.Ctx)) },
		"TryAcquire": func(s *sleeper, sem *berth.Semaphore, _ *berth.Lease) error { return take(sem.TryAcquire(s.Ctx)) },
		"Acquire of another": func(s *sleeper, _ *berth.Semaphore, _ *berth.Lease) error {
			return take(s.peer.Named("other", 1).Acquire(s.Ctx))
		},
		"Renew":   func(s *sleeper, _ *berth.Semaphore, held *berth.Lease) error { return held.Renew(s.Ctx) },
		"Release": func(_ *sleeper, _ *berth.Semaphore, held *berth.Lease) error { return held.Release() },
		"Detach": func(s *sleeper, _ *berth.Semaphore, held *berth.Lease) error {
			handle, err := held.Detach(s.Ctx)
			if err == nil {
				return s.peer.ReleaseHandle(s.Ctx, handle)
			}
			return err
		},
		"Adopt": func(s *sleeper, _ *berth.Semaphore, held *berth.Lease) error {
			handle, err := held.Detach(s.Ctx)
			s.Must(err)
			s.suspend(10 * time.Second)
			return take(s.peer.Adopt(s.Ctx, handle))
		},
	}
	for name, request := range requests {
		for _, slept := range []time.Duration{10 * time.Second, 30 * time.Minute} {
			t.Run(name+" after "+slept.String(), func(t *testing.T) {
				onASleeper(t, func(s *sleeper) {
					sem := s.peer.Sem(2, berth.TTL(time.Hour))
					held := s.Hold(sem)
					s.pass(time.Minute)
					s.suspend(slept)
					start := time.Now()
					if err := request(s, sem, held); err != nil {
						s.Errorf("%v, after %v", err, time.Since(start))
					}
				})
			})
		}
	}
}

func take(l *berth.Lease, err error) error {
	if err != nil {
		return err
	}
	return l.Release()
}

// TestRetriesAfterASuspension: connections break, as they do then, and what is tried again is not
// left to a timer that was set before, and has stood still.
func TestRetriesAfterASuspension(t *testing.T) {
	for name, request := range map[string]func(s *sleeper, sem *berth.Semaphore, held *berth.Lease) error{
		"Acquire": func(s *sleeper, sem *berth.Semaphore, _ *berth.Lease) error { return take(sem.Acquire(s.Ctx)) },
		"Release": func(_ *sleeper, _ *berth.Semaphore, held *berth.Lease) error { return held.Release() },
	} {
		t.Run(name, func(t *testing.T) {
			onASleeper(t, func(s *sleeper) {
				sem := s.peer.Sem(2, berth.TTL(time.Hour))
				held := s.Hold(sem)
				s.pass(time.Minute)
				s.suspend(30 * time.Minute)
				if !held.Valid() {
					s.Fatal("the lease has run out")
				}
				s.peer.Net.Inject(redistest.Rule{Times: 4, Match: redistest.IsScript, Fault: redistest.Reset})
				start := time.Now()
				if err := request(s, sem, held); err != nil || time.Since(start) > 5*time.Second {
					s.Errorf("%v, after %v", err, time.Since(start))
				}
			})
		})
	}
}

// TestStepOfTheServersClockIsLogged, after a pause, too; and a suspension is none.
func TestStepOfTheServersClockIsLogged(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(s *sleeper)
		logged  bool
	}{
		"step":           {func(s *sleeper) { s.step(time.Hour) }, true},
		"step back":      {func(s *sleeper) { s.step(-time.Hour) }, true},
		"suspension":     {func(s *sleeper) { s.suspend(time.Minute) }, false},
		"nothing at all": {func(*sleeper) {}, false},
	} {
		for _, idle := range []time.Duration{time.Minute, 3 * time.Minute} {
			t.Run(name+" after "+idle.String(), func(t *testing.T) {
				onASleeper(t, func(s *sleeper) {
					sem := s.peer.Sem(1)
					s.Must(take(sem.Acquire(s.Ctx)))
					s.pass(idle)
					test.happens(s)
					for range 2 {
						s.Must(take(sem.Acquire(s.Ctx)))
					}
					synctest.Wait() // until what was logged is written
					if logged := strings.Contains(s.log.String(), "stepped"); logged != test.logged {
						s.Errorf("logged a step: %v, want %v:\n%s", logged, test.logged, s.log.String())
					}
				})
			})
		}
	}
}
