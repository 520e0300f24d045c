package classic_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/classic"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// listened is a client whose commands are recorded, on a store of its own.
type listened struct {
	rdb *redis.Client
	rec *recorder
}

// onBothListened is onBoth for tests that compare what is sent. The names are
// part of that, so each gets a store of its own.
func onBothListened(t *testing.T, body func(*testing.T, listened)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		rec := record(t, "tcp", miniredis.RunT(t).Addr())
		body(t, listened{rec.client(t), rec})
	})
	t.Run("real", func(t *testing.T) {
		rec := record(t, "unix", redistest.Start(t).Socket())
		body(t, listened{rec.client(t), rec})
	})
}

// sent compares what was sent since the last call; one command per line.
func (l listened) sent(t *testing.T, want string) {
	t.Helper()
	got := l.rec.take()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if !slices.Equal(got, lines) {
		t.Fatalf("sent:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

// figure68 is the situation of figure 6.8: process 8372 comes at 1326437039.100
// to a semaphore with a limit of 5 and the time-out of 10 seconds.
func figure68(more ...string) []classic.Option {
	return []classic.Option{classic.WithClock(newClock().now), ids(append(more, "8372")...)}
}

// others puts n other holders into the semaphore; the last has the number 7360.
func (l listened) others(t *testing.T, n int) {
	t.Helper()
	s := store{name: "semaphore:remote", rdb: l.rdb}
	fill(t, s, n, newClock().now().Add(-5*time.Second))
	noError(t, l.rdb.Set(t.Context(), "semaphore:remote:counter", 7360, 0).Err())
	l.rec.take()
}

const figure68Sent = `
	MULTI
	ZREMRANGEBYSCORE semaphore:remote -inf 1326437029.1
	ZINTERSTORE semaphore:remote:owner 2 semaphore:remote:owner semaphore:remote WEIGHTS 1 0
	INCR semaphore:remote:counter
	EXEC
	MULTI
	ZADD semaphore:remote 1326437039.1 8372
	ZADD semaphore:remote:owner 7361 8372
	ZRANK semaphore:remote:owner 8372
	EXEC
`

const bothRemoved = `
	MULTI
	ZREM semaphore:remote 8372
	ZREM semaphore:remote:owner 8372
	EXEC
`

func TestFairSendsTheSequenceOfFigure68(t *testing.T) {
	onBothListened(t, func(t *testing.T, l listened) {
		l.others(t, 4)
		s := newFair(t, l.rdb, "semaphore:remote", 5, figure68()...)
		if id := hold(t, s); id != "8372" {
			t.Fatalf("got %q", id)
		}
		l.sent(t, figure68Sent)
		release(t, s, "8372", true)
		l.sent(t, bothRemoved)
	})
}

func TestFairTakesBackARefusedTryFromBothSetsInOneTransaction(t *testing.T) {
	onBothListened(t, func(t *testing.T, l listened) {
		l.others(t, 5)
		refused(t, newFair(t, l.rdb, "semaphore:remote", 5, figure68()...))
		l.sent(t, figure68Sent+bothRemoved)
	})
}

func TestFairRefreshSendsOneZADDAndReleasesWhatWasLost(t *testing.T) {
	onBothListened(t, func(t *testing.T, l listened) {
		at := newClock()
		s := newFair(t, l.rdb, "semaphore:remote", 5, classic.WithClock(at.now), ids("8372"))
		id := hold(t, s)
		l.rec.take()
		at.advance(5 * time.Second)
		refresh(t, s, id, true)
		l.sent(t, `ZADD semaphore:remote 1326437044.1 8372`)
		release(t, s, id, true)
		l.rec.take()
		refresh(t, s, id, false)
		l.sent(t, `ZADD semaphore:remote 1326437044.1 8372`+bothRemoved)
	})
}

func TestBasicSendsOneTransactionAndARefusedTryOneZREMMore(t *testing.T) {
	const acquired = `
		MULTI
		ZREMRANGEBYSCORE semaphore:remote -inf 1326437029.1
		ZADD semaphore:remote 1326437039.1 8372
		ZRANK semaphore:remote 8372
		EXEC
	`
	onBothListened(t, func(t *testing.T, l listened) {
		s := newBasic(t, l.rdb, "semaphore:remote", 5, figure68()...)
		l.others(t, 4)
		hold(t, s)
		l.sent(t, acquired)
		release(t, s, "8372", true)
		l.sent(t, `ZREM semaphore:remote 8372`)
		l.others(t, 5)
		refused(t, newBasic(t, l.rdb, "semaphore:remote", 5, figure68()...))
		l.sent(t, acquired+`ZREM semaphore:remote 8372`)
	})
}

func TestUnderLockSendsTheFairSequenceInsideTheLock(t *testing.T) {
	onBothListened(t, func(t *testing.T, l listened) {
		l.others(t, 4)
		s, err := classic.NewFairUnderLock(l.rdb, "semaphore:remote", 5, figure68("key")...)
		noError(t, err)
		hold(t, s)
		l.sent(t, `SET lock:semaphore:remote key EX 10 NX`+figure68Sent+`
			WATCH lock:semaphore:remote
			GET lock:semaphore:remote
			MULTI
			DEL lock:semaphore:remote
			EXEC
		`)
	})
}

func TestLockReleaseByAnotherSendsNoDEL(t *testing.T) {
	onBothListened(t, func(t *testing.T, l listened) {
		lock := newLock(t, l.rdb, "semaphore:remote", ids("key"))
		lockNow(t, lock)
		l.rec.take()
		unlock(t, lock, "another", false)
		l.sent(t, `
			WATCH lock:semaphore:remote
			GET lock:semaphore:remote
			UNWATCH
		`)
	})
}

// The shortest digits that give the same float64 again, as Python's repr() has
// them, but never an exponent.
func TestScoresAreSecondsToTheLastDigit(t *testing.T) {
	for nano, want := range map[int64]string{
		1326437039100000000: "1326437039.1",
		1326437039000000000: "1326437039",
		1795777445123456000: "1795777445.123456",
		1795777445999999000: "1795777445.999999",
		1:                   "0.000000001",
	} {
		t.Run(want, func(t *testing.T) {
			rec := record(t, "tcp", miniredis.RunT(t).Addr())
			l := listened{rec.client(t), rec}
			clock := classic.WithClock(func() time.Time { return time.Unix(0, nano) })
			hold(t, newBasic(t, l.rdb, "sem", 1, clock, ids("id")))
			if got := rec.take()[2]; got != "ZADD sem "+want+" id" {
				t.Fatalf("sent %q", got)
			}
		})
	}
}
