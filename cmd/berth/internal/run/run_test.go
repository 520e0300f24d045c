package run

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		Acquire: func(ctx context.Context, opts ...berth.AcquireOption) (*berth.Lease, error) {
			lease, err := sem.Acquire(ctx, opts...)
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
