package run

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

// A lease that is lost before the command's start is told as that, in one sentence.
func TestLeaseLostBeforeTheStart(t *testing.T) {
	store := berthtest.New(t)
	sem, err := store.Client().Semaphore("s", 1, berth.MaxHold(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	notices, ran := NewNotices(log), filepath.Join(t.TempDir(), "ran")
	err = Run(Config{
		Name: "s", Path: "/bin/sh", Command: []string{"sh", "-c", ">" + ran}, TTL: berth.DefaultTTL, MaxHold: time.Second, Weight: 1,
		Health: &Health{}, Notices: notices, NotAcquired: exit.NotAcquired,
		Acquire: func(ctx context.Context, queued func(berth.Place)) (*berth.Lease, error) {
			lease, err := sem.Acquire(ctx, berth.OnQueued(queued))
			store.Slow(time.Hour)
			return lease, err
		},
	})
	if exit.Of(err) != exit.Lost || !strings.HasPrefix(err.Error(), "sh was not started: its lease ") {
		t.Errorf("code %d: %v", exit.Of(err), err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("it was started")
	}
	notices.Flush(time.Minute)
	if text, err := os.ReadFile(log.Name()); err != nil || len(text) > 0 {
		t.Errorf("it also says %q, %v", text, err)
	}
}

// A lease that is lost before the command's start has done no harm: another one is waited for,
// within the time to wait, unless an operator took it.
func TestAnotherLeaseForTheStart(t *testing.T) {
	expire := func(s *berthtest.Store, lease *berth.Lease) { s.Lose(lease) }
	for name, tt := range map[string]struct {
		end   func(*berthtest.Store, *berth.Lease)
		times int // how often a lease ends too early
		cfg   Config
		code  int
		says  string
	}{
		"once":            {expire, 1, Config{}, exit.OK, ""},
		"once, in time":   {expire, 1, Config{Wait: time.Hour}, exit.OK, ""},
		"always":          {expire, mostLate, Config{}, exit.Lost, "true was not started: its lease is lost"},
		"by an operator":  {(*berthtest.Store).Evict, 1, Config{}, exit.Lost, "an operator evicted it"},
		"by its max-hold": {expire, 1, Config{MaxHold: time.Second}, exit.Lost, "true was not started: its lease is lost"},
	} {
		t.Run(name, func(t *testing.T) {
			store, times := berthtest.New(t), tt.times
			sem, err := store.Client().Semaphore("s", 1)
			if err != nil {
				t.Fatal(err)
			}
			cfg := tt.cfg
			cfg.Name, cfg.Path, cfg.Command, cfg.TTL, cfg.Weight = "s", "/bin/true", []string{"true"}, berth.DefaultTTL, 1
			cfg.Health, cfg.Notices, cfg.NotAcquired = &Health{}, NewNotices(os.Stderr), exit.NotAcquired
			cfg.Ping = func(context.Context) error { return nil }
			cfg.Acquire = func(_ context.Context, queued func(berth.Place)) (*berth.Lease, error) {
				lease, err := sem.Acquire(context.Background(), berth.OnQueued(queued))
				if times--; err == nil && times >= 0 {
					tt.end(store, lease)
					<-lease.Context().Done()
				}
				return lease, err
			}
			switch err := Run(cfg); {
			case exit.Of(err) != tt.code:
				t.Errorf("code %d: %v", exit.Of(err), err)
			case err != nil && !strings.Contains(err.Error(), tt.says):
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

// What is left of a wait is what another lease is waited for.
func TestWaitIsNotBegunAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			wait, passed, left time.Duration
			more               bool
		}{
			{0, time.Hour, 0, true},
			{time.Minute, 20 * time.Second, 40 * time.Second, true},
			{time.Minute, time.Minute, 0, false},
			{time.Minute, time.Hour, -59 * time.Minute, false},
		} {
			over := time.Now().Add(tt.wait)
			<-time.After(tt.passed)
			cfg := Config{Wait: tt.wait}
			if left, more := cfg.until(over); more != tt.more || left != tt.left {
				t.Errorf("%v of %v have passed: %v left, %v", tt.passed, tt.wait, left, more)
			}
		}
	})
}

// A signal that comes before the command's start is for berth alone: it ends the renewal that
// may come first, and the command is not started.
func TestSignalBeforeTheStart(t *testing.T) {
	for name, maxHold := range map[string]time.Duration{"a whole TTL is left": 0, "a renewal comes first": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			store := berthtest.New(t)
			sem, err := store.Client().Semaphore("s", 1, berth.MaxHold(maxHold))
			if err != nil {
				t.Fatal(err)
			}
			lease, err := sem.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			store.Slow(time.Hour)
			signals := make(chan os.Signal, 1)
			signals <- unix.SIGINT
			cfg := Config{Command: []string{"sh"}, TTL: berth.DefaultTTL, MaxHold: maxHold, Signals: signals, Notices: NewNotices(os.Stderr)}
			if err := ready(cfg, lease); exit.Of(err) != 128+int(unix.SIGINT) {
				t.Errorf("code %d: %v", exit.Of(err), err)
			}
			store.Slow(0)
		})
	}
}
