package wire

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

func newClient(t *testing.T) (*redis.Client, *Tap) {
	t.Helper()
	m := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{
		Addr: m.Addr(), MaxRetries: -1, PoolSize: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { _ = rdb.Close() })
	tap := &Tap{}
	tap.Attach(rdb)
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return rdb, tap
}

func TestTapCountsTransactionsWhole(t *testing.T) {
	t.Parallel()
	rdb, tap := newClient(t)
	transaction := func(f func(redis.Pipeliner)) {
		if _, err := rdb.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			f(p)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	// The first one gets a connection of its own, with its handshake.
	transaction(func(p redis.Pipeliner) { p.Ping(t.Context()) })
	before := tap.Commands()
	transaction(func(p redis.Pipeliner) {
		p.Incr(t.Context(), "n")
		p.Set(t.Context(), "s", strings.Repeat("*1\r\n", 10_000), 0)
	})
	if n := tap.Commands() - before; n != 4 {
		t.Errorf("%d commands counted for MULTI INCR SET EXEC", n)
	}
}

func TestCuts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		how  Cut
		want int64
	}{"request": {Request, 0}, "reply": {Reply, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb, tap := newClient(t)
			ctx := context.Background()
			tap.CutNext(tt.how)
			err := rdb.Incr(ctx, "n").Err()
			if err == nil {
				t.Fatal("the caller was not told")
			}
			if tt.how == Request && !errors.Is(err, ErrCut) {
				t.Errorf("error %v, want %v", err, ErrCut)
			}
			// A new connection's handshake is not what is to be cut: this one arrives.
			tap.CutNext(Reply)
			if err := rdb.Incr(ctx, "n").Err(); err == nil {
				t.Error("the caller was not told")
			}
			n, err := rdb.IncrBy(ctx, "n", 0).Result()
			if err != nil || n != tt.want+1 {
				t.Errorf("the commands were executed %d times (%v), want %d", n, err, tt.want+1)
			}
		})
	}
}

// A transaction whose reply is lost has been executed as a whole, on a server
// that answers each of its commands by itself.
func TestCutReplyIsAfterTheWholeTransaction(t *testing.T) {
	t.Parallel()
	rdb, tap := newClient(t)
	ctx := context.Background()
	for round := range int64(20) {
		tap.CutNext(Reply)
		_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			for range 50 {
				p.Incr(ctx, "n")
			}
			return nil
		})
		if err == nil {
			t.Fatal("the caller was not told")
		}
		if n, err := rdb.IncrBy(ctx, "n", 0).Result(); err != nil || n != 50*(round+1) {
			t.Fatalf("%d of %d increments (%v)", n, 50*(round+1), err)
		}
	}
}

func TestOnReplyIsAfterTheServerAndBeforeTheClient(t *testing.T) {
	t.Parallel()
	rdb, tap := newClient(t)
	ctx := context.Background()
	var calls int
	tap.OnReply(2, func() { calls++ })
	for i := range 3 {
		if err := rdb.Incr(ctx, "n").Err(); err != nil {
			t.Fatal(err)
		}
		if want := min(i, 1); calls != want {
			t.Errorf("%d calls after reply %d, want %d", calls, i+1, want)
		}
	}
}
