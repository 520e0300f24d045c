package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/run"
)

// TestLocalStoreIsNotCalledRedis, in whatever the library, its client or the command says.
func TestLocalStoreIsNotCalledRedis(t *testing.T) {
	for text, want := range map[string]string{
		fmt.Sprint(berth.ErrUnreachable):               "berth: the local store is unreachable",
		fmt.Sprintf("%v: %q", berth.ErrRefused, "s"):   `berth: the local store refused: "s"`,
		fmt.Sprint(berth.LostVanished):                 "the server does not know it, although it cannot have expired: has the local store lost its data, or has its clock been set?",
		"redis: connection pool timeout":               "the local store: connection pool timeout",
		"berth: Redis has not answered for 30s":        "berth: the local store has not answered for 30s",
		"redis (redis), Redis":                         "the local store (the local store), the local store",
		`no permit of "redis is unreachable"`:          `no permit of "redis is unreachable"`,
		`"a \\"redis b" redis`:                         `"a \\"redis b" the local store`,
		"connect to /srv/redis/sock, $BERTH_REDIS_URL": "connect to /srv/redis/sock, $BERTH_REDIS_URL",
		"rediscover redistribution":                    "rediscover redistribution",
	} {
		if got := inLocalWords(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestWaitBoundsTheCleanUp: whoever has said how long it may take is not kept waiting at its end.
func TestWaitBoundsTheCleanUp(t *testing.T) {
	const wait = 10 * time.Second
	for name, tt := range map[string]struct {
		err  error
		left time.Duration // of the wait
		want time.Duration
	}{
		"a command has ended":  {exit.Code(3), -time.Hour, closeTimeout},
		"nothing went wrong":   {nil, -time.Hour, closeTimeout},
		"no permit in time":    {exit.Refusal(9, errors.New("no permit")), 0, awayTimeout},
		"a little late":        {exit.Refusal(9, errors.New("no permit")), -time.Second, awayTimeout},
		"no answer in time":    {exit.Errorf(exit.Unavailable, "no answer"), 0, awayTimeout},
		"refused early":        {exit.Refusal(9, errors.New("the queue is full")), wait, closeTimeout},
		"refused near the end": {exit.Refusal(9, errors.New("evicted")), time.Second, time.Second + awayTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			if got := closing(tt.err, time.Now().Add(tt.left)); got != tt.want {
				t.Errorf("%s: %v, want %v", name, got, tt.want)
			}
		})
	}
	if got := closing(exit.Refusal(9, errors.New("no permit")), time.Time{}); got != closeTimeout {
		t.Errorf("without a bound: %v", got)
	}
}

// TestCloseEndsInTime, whether it is known that Redis is away or not.
func TestCloseEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		s := &session{rdb: store.Redis(), client: store.Client(), health: &run.Health{}}
		sem, err := s.client.Semaphore("s", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sem.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		store.Slow(time.Hour)
		start := time.Now()
		s.Close(nil, awayTimeout)
		if took := time.Since(start); took != awayTimeout {
			t.Errorf("it took %v, want %v", took, awayTimeout)
		}
		_ = s.health.Watch(func() error { return errors.New("away") })
		start = time.Now()
		s.Close(nil, closeTimeout)
		if took := time.Since(start); took != awayTimeout {
			t.Errorf("it took %v, want %v", took, awayTimeout)
		}
	})
}

// TestEnterNeedsNoRedis: only this machine's own store has a door.
func TestEnterNeedsNoRedis(t *testing.T) {
	leave, err := (&session{health: &run.Health{}}).enter(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	leave()
}
