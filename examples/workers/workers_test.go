package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// TestWorkersGiveJobsBack: with each library all jobs are done, though most exports are given back more
// often than they may fail. Mails do not wait for exports.
func TestWorkersGiveJobsBack(t *testing.T) {
	t.Parallel()
	for queue := range queues {
		t.Run(queue, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // for a job that is lost
			defer cancel()
			var out bytes.Buffer
			if err := run(ctx, &out, redistest.Start(t).URL(), queue); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s", &out)
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if len(lines) != 5 {
				t.Fatal("this is not what the page shows")
			}
			waits, back := strings.Fields(lines[3]), strings.Fields(lines[4])
			if waits[3] != "2" || waits[4] != "0" || back[5] != "2" || back[6] == "0" {
				t.Errorf("exports at once %s and %s, given back %s and %s; want 2, 2, 0 and more than 0", waits[3], back[5], waits[4], back[6])
			}
			took, _ := time.ParseDuration(back[3])
			if mails, err := time.ParseDuration(back[4]); err != nil || mails >= took {
				t.Errorf("the last mail was done after %s, and everything after %s", back[4], back[3])
			}
		})
	}
	if err := run(t.Context(), new(bytes.Buffer), "", "sidekiq"); err == nil {
		t.Error("an unknown queue is no error")
	}
}

func newSemaphore(t *testing.T, opts ...berth.Option) (*berthtest.Store, *berth.Client, *berth.Semaphore) {
	t.Helper()
	store := berthtest.Start()
	t.Cleanup(store.Close)
	client := store.Client()
	sem, err := client.Semaphore("exports", 1, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return store, client, sem
}

func nothing(context.Context) error { return nil }

func TestJobIsTriedAgainWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	_, _, sem := newSemaphore(t)
	var nested error
	if err := try(t.Context(), sem, func(ctx context.Context) error {
		nested = try(ctx, sem, nothing)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	l, ok := errors.AsType[*later](nested)
	if !ok || !errors.Is(nested, berth.ErrBusy) || l.after < pause/2 || l.after > 2*pause {
		t.Errorf("while it is busy: %v", nested)
	}
	if err := try(t.Context(), sem, nothing); err != nil {
		t.Errorf("when there is room: %v", err)
	}
}

func TestJobIsTriedAgainAfterTheRate(t *testing.T) {
	t.Parallel()
	_, _, sem := newSemaphore(t, berth.Rate(1, time.Hour))
	if err := try(t.Context(), sem, nothing); err != nil {
		t.Fatal(err)
	}
	err := try(t.Context(), sem, nothing)
	if l, ok := errors.AsType[*later](err); !ok || l.after < 50*time.Minute || l.after > 61*time.Minute {
		t.Errorf("while the rate leaves no room: %v", err)
	}
}

func TestJobIsTriedAgainWhenRedisIsBack(t *testing.T) {
	t.Parallel()
	store, _, sem := newSemaphore(t)
	store.Down()
	if err := try(t.Context(), sem, nothing); !isLater(err) || !errors.Is(err, berth.ErrUnreachable) {
		t.Errorf("without Redis: %v", err)
	}
}

func TestOtherErrorsAreTheJobs(t *testing.T) {
	t.Parallel()
	_, client, sem := newSemaphore(t)
	own := errors.New("no such account")
	if err := try(t.Context(), sem, func(context.Context) error { return own }); !errors.Is(err, own) || isLater(err) {
		t.Errorf("error %v", err)
	}
	heavy, err := client.Semaphore("exports", 1, berth.Weight(2))
	if err != nil {
		t.Fatal(err)
	}
	if err := try(t.Context(), heavy, nothing); !errors.Is(err, berth.ErrTooHeavy) || isLater(err) {
		t.Errorf("a job that never has room: %v", err)
	}
}

func TestLostLeaseEndsTheJob(t *testing.T) {
	t.Parallel()
	_, client, sem := newSemaphore(t)
	err := try(t.Context(), sem, func(ctx context.Context) error {
		in := berthadmin.Of(client)
		state, err := in.Show(ctx, "exports")
		if err != nil {
			return err
		}
		if err := in.ForceEvict(ctx, "exports", state.Leases[0].ID); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, berth.ErrLost) || isLater(err) {
		t.Errorf("error %v", err)
	}
}
