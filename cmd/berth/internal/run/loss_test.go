package run

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/cmd/berth/internal/job"
)

// supervised is a supervisor of nothing, with a lease on a store of its own.
func supervised(t *testing.T, ttl time.Duration) (*supervisor, *berthtest.Store) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	store := berthtest.New(t)
	sem, err := store.Client().Semaphore("s", 1, berth.TTL(ttl))
	if err != nil {
		t.Fatal(err)
	}
	lease, err := sem.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Name: "s", Command: []string{"sh"}, TTL: ttl, Health: &Health{}, Notices: NewNotices(null)}
	s := &supervisor{cfg: cfg, lease: lease, proc: &job.Process{}, gone: lease.Context().Done()}
	s.timer = time.NewTimer(s.untilNotice())
	t.Cleanup(func() { s.timer.Stop() })
	return s, store
}

// TestKillComesInTime: a command that ignores TERM is killed at a bound that depends on how the
// lease was lost, and again until it has gone.
func TestKillComesInTime(t *testing.T) {
	vanish := func(store *berthtest.Store, _ *berth.Lease) { store.Redis().FlushAll(context.Background()) }
	silence := func(store *berthtest.Store, _ *berth.Lease) { store.Slow(time.Hour) }
	for name, tt := range map[string]struct {
		ttl  time.Duration
		lose func(*berthtest.Store, *berth.Lease)
		want func(trust time.Time) time.Time // given the trust deadline before the loss
	}{
		"evicted, for long":  {time.Minute, (*berthtest.Store).Evict, func(time.Time) time.Time { return time.Now().Add(maxNotice) }},
		"evicted, not long":  {6 * time.Second, (*berthtest.Store).Evict, func(trust time.Time) time.Time { return trust }},
		"gone with the keys": {time.Minute, vanish, func(time.Time) time.Time { return time.Now() }},
		"no answer":          {time.Minute, silence, func(time.Time) time.Time { return time.Now() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, store := supervised(t, tt.ttl)
				trust := s.trust
				tt.lose(store, s.lease)
				<-s.gone
				s.lose(context.Cause(s.lease.Context()))
				want := tt.want(trust)
				for range 3 {
					select {
					case <-s.timer.C:
					case <-time.After(time.Hour):
						t.Fatal("it is not killed")
					}
					if now := time.Now(); !now.Equal(want) {
						t.Errorf("it is killed %v after the time", now.Sub(want))
					}
					if s.deadline() {
						t.Fatal("it has not ended")
					}
					want = time.Now().Add(killPause)
				}
				ended := unix.WaitStatus(0)
				if s.status = &ended; !s.deadline() {
					t.Error("it has ended")
				}
			})
		})
	}
}

// TestNothingWakesAfterALoss: with --on-lost=warn the loss is one event, and not a channel that
// stays ready and takes a CPU until the command has ended.
func TestNothingWakesAfterALoss(t *testing.T) {
	spinning := time.AfterFunc(time.Minute, func() { panic("the loss is heard of again and again") })
	defer spinning.Stop()
	synctest.Test(t, func(t *testing.T) {
		s, store := supervised(t, time.Minute)
		s.cfg.WarnOnly = true
		s.timer.Stop()
		child := make(chan os.Signal)
		s.child = child
		ended := make(chan error)
		go func() { ended <- s.loop() }()
		store.Lose(s.lease)
		<-s.lease.Context().Done()
		synctest.Wait()
		s.status = new(unix.WaitStatus)
		child <- unix.SIGCHLD
		if err := <-ended; err != nil || !s.lost {
			t.Errorf("%v, lost: %v", err, s.lost)
		}
	})
}

// TestSuspendedRunFindsItsLeaseExpired: what goes on after that gets its TERM first.
func TestSuspendedRunFindsItsLeaseExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := supervised(t, time.Minute)
		s.resume()
		if s.lost {
			t.Error("a lease is lost that is not")
		}
		store.Slow(time.Hour)
		<-time.After(2 * time.Minute)
		s.resume()
		if !s.lost {
			t.Error("a command went on without a lease")
		}
	})
}

// TestLeaseMustLastUntilTheStart: it may end while berth waits for its last words to be read.
func TestLeaseMustLastUntilTheStart(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	notices := NewNotices(w)
	for range mostPending / 1024 { // a pipe that nobody reads
		notices.Println(string(make([]byte, 1000)))
		notices.Flush(time.Millisecond)
	}
	sem, err := berthtest.New(t).Client().Semaphore("s", 1, berth.TTL(flushPause/2), berth.WithoutRenewal())
	if err != nil {
		t.Fatal(err)
	}
	lease, err := sem.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = ready(Config{Command: []string{"sh"}, TTL: time.Millisecond, Notices: notices}, lease)
	if err == nil {
		t.Error("a command would be started without a lease")
	}
}
