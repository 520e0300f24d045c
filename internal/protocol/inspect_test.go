package protocol

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// betweenPages is a hook that calls f after the first answer.
type betweenPages struct{ f func() }

func (*betweenPages) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*betweenPages) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b *betweenPages) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if f := b.f; f != nil && err == nil && cmd.Name() == "evalsha" {
			b.f = nil
			f()
		}
		return err
	}
}

// Whoever holds or waits all the while that a semaphore is read page by page is in the
// picture once, whatever others do between two pages; and nobody is taken for a holder who
// waits, or the other way round.
func TestNobodyIsMissedBetweenTwoPages(t *testing.T) {
	t.Parallel()
	all := ids(2*page + 400) // on the embedded store, all holders have one deadline
	holders, waiters := all[:2*page+100], all[2*page+100:]
	for _, test := range []struct {
		what            string
		meanwhile       []Op
		holding, queued []string // all the while
	}{
		{"holders renew", each(Op{Verb: Renew, TTL: time.Hour}, holders[:200]...), holders, waiters},
		{"waiters ask", each(Op{Verb: Heartbeat, TTL: time.Hour}, waiters[50:250]...), holders, waiters},
		{"somebody comes", each(Op{Verb: Acquire, Terms: terms(len(holders))}, "s0.late"), holders, waiters},
		{"holders leave", each(Op{Verb: Release}, holders[:200]...), holders[200:], waiters[200:]},
		{"waiters leave", each(Op{Verb: Release}, waiters[:200]...), holders, waiters[200:]},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			onBoth(t, true, func(t *testing.T, r *rig) {
				for part := range slices.Chunk(each(Op{Verb: Acquire, Terms: terms(len(holders))}, all...), MaxIDs) {
					r.do(t, 0, part...)
				}
				r.do(t, 0, each(Op{Verb: Heartbeat, TTL: time.Hour}, waiters[:50]...)...) // these are read last
				rdb := redis.NewClient(r.rdb.Options())
				defer rdb.Close()
				rdb.AddHook(&betweenPages{func() { r.do(t, 0, test.meanwhile...) }})
				snap, err := NewStore(rdb, r.prefix, "s9", 1, "host").Inspect(t.Context(), r.key, true)
				if err != nil {
					t.Fatal(err)
				}
				seen := map[string]int{}
				for _, l := range snap.Leases {
					seen[l.ID]++
					if l.Token == 0 {
						t.Errorf("%s is among the holders, and waits", l.ID)
					}
				}
				for _, id := range test.holding {
					if seen[id] != 1 {
						t.Errorf("the holder %s is there %d times", id, seen[id])
					}
				}
				var queue []string
				for _, w := range snap.Queue {
					if w.Token > 0 {
						t.Errorf("%s is in the queue, and holds", w.ID)
					}
					if slices.Contains(test.queued, w.ID) {
						queue = append(queue, w.ID)
					}
				}
				if !slices.Equal(queue, test.queued) {
					t.Errorf("%d in the queue, want %d", len(queue), len(test.queued))
				}
			})
		})
	}
}

// TestOwnersSayMore: what an owner says behind its client is kept apart from it, for a holder
// and for a waiter.
func TestOwnersSayMore(t *testing.T) {
	t.Parallel()
	onBoth(t, true, func(t *testing.T, r *rig) {
		for _, id := range []string{"p0.1", "p0.2"} {
			if _, err := r.send("0", "A1 1 0 1 10000 0 9 30000 7/host;py1;zone=b;job=4 nightly run", id); err != nil {
				t.Fatal(err)
			}
		}
		snap, err := r.stores[0].Inspect(t.Context(), r.key, true)
		if err != nil || len(snap.Leases) != 1 || len(snap.Queue) != 1 {
			t.Fatalf("%+v, %v", snap, err)
		}
		for _, got := range []Record{snap.Leases[0], snap.Queue[0]} {
			if got.PID != 7 || got.Host != "host" || got.Client != "py1" || got.Extra != "zone=b;job=4" || got.Label != "nightly run" {
				t.Errorf("read as %+v", got)
			}
		}
	})
}

// TestLookIsExactAboutTheRate where more leases end before what counts than a look without records
// shows; above a page it reads no more.
func TestLookIsExactAboutTheRate(t *testing.T) {
	t.Parallel()
	onBoth(t, true, func(t *testing.T, r *rig) {
		const hour = time.Hour
		held := 0
		for _, test := range []struct {
			hold  int
			exact bool
		}{{page - 100, true}, {page, false}} {
			more := ids(test.hold)[held:]
			held = test.hold
			declared := terms(2*page, func(t *Terms) { t.Rate = Rate{held, hour} })
			for part := range slices.Chunk(each(Op{Verb: Acquire, Terms: declared}, more...), MaxIDs) {
				r.do(t, 0, part...)
			}
			snap, err := r.stores[0].Look(t.Context(), r.key, 1)
			if err != nil || snap.Spent != held {
				t.Fatalf("%d held: %+v, %v", held, snap, err)
			}
			if rest := snap.Rest(1); rest == 0 || (rest > hour/2) != test.exact {
				t.Errorf("%d held: no room for %v", held, rest)
			}
			if snap, err = r.stores[0].Look(t.Context(), r.key, 0); err != nil || snap.Leases != nil {
				t.Errorf("%d leases were read, %v, and there is room", len(snap.Leases), err)
			}
		}
	})
}
