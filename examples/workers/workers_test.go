package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
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

// bubble runs a test in time that is exact, whatever the machine does.
func bubble(t *testing.T, opts []berth.Option, test func(t *testing.T, store *berthtest.Store, sem *berth.Semaphore)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		sem, err := store.Client().Semaphore("exports", 1, opts...)
		if err != nil {
			t.Fatal(err)
		}
		test(t, store, sem)
	})
}

func nothing(context.Context) error { return nil }

func TestJobIsTriedAgainWhenThereIsRoom(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *berthtest.Store, sem *berth.Semaphore) {
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
	})
}

func TestJobIsTriedAgainAfterTheRate(t *testing.T) {
	bubble(t, []berth.Option{berth.Rate(1, time.Hour)}, func(t *testing.T, _ *berthtest.Store, sem *berth.Semaphore) {
		if err := try(t.Context(), sem, nothing); err != nil {
			t.Fatal(err)
		}
		err := try(t.Context(), sem, nothing)
		l, ok := errors.AsType[*later](err)
		if !ok || l.after < time.Hour {
			t.Fatalf("while the rate leaves no room: %v", err)
		}
		<-time.After(l.after)
		if err := try(t.Context(), sem, nothing); err != nil {
			t.Errorf("after that: %v", err)
		}
	})
}

func TestJobIsTriedAgainWhenRedisIsBack(t *testing.T) {
	bubble(t, nil, func(t *testing.T, store *berthtest.Store, sem *berth.Semaphore) {
		store.Down()
		if err := try(t.Context(), sem, nothing); !isLater(err) || !errors.Is(err, berth.ErrUnreachable) {
			t.Errorf("without Redis: %v", err)
		}
	})
}

func TestOtherErrorsAreTheJobs(t *testing.T) {
	bubble(t, nil, func(t *testing.T, _ *berthtest.Store, sem *berth.Semaphore) {
		own := errors.New("no such account")
		if err := try(t.Context(), sem, func(context.Context) error { return own }); !errors.Is(err, own) || isLater(err) {
			t.Errorf("error %v", err)
		}
		heavy, err := sem.With(berth.Weight(2))
		if err != nil {
			t.Fatal(err)
		}
		if err := try(t.Context(), heavy, nothing); !errors.Is(err, berth.ErrTooHeavy) || isLater(err) {
			t.Errorf("a job that never has room: %v", err)
		}
	})
}

func TestLostLeaseEndsTheJob(t *testing.T) {
	bubble(t, []berth.Option{berth.MaxHold(time.Minute)}, func(t *testing.T, _ *berthtest.Store, sem *berth.Semaphore) {
		err := try(t.Context(), sem, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, berth.ErrLost) || isLater(err) {
			t.Errorf("error %v", err)
		}
	})
}
