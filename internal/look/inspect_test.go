package look

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/protocol"
)

// betweenPages is a hook that calls f after the first answer.
type betweenPages struct{ f func() }

func (*betweenPages) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*betweenPages) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b *betweenPages) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if f := b.f; f != nil && cmds[0].Err() == nil {
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
		meanwhile       []protocol.Op
		holding, queued []string // all the while
	}{
		{"holders renew", each(protocol.Op{Verb: protocol.Renew, TTL: time.Hour}, holders[:200]...), holders, waiters},
		{"waiters ask", each(protocol.Op{Verb: protocol.Heartbeat, TTL: time.Hour}, waiters[50:250]...), holders, waiters},
		{"somebody comes", acquire(len(holders), "s0.late"), holders, waiters},
		{"holders leave", each(protocol.Op{Verb: protocol.Release}, holders[:200]...), holders[200:], waiters[200:]},
		{"waiters leave", each(protocol.Op{Verb: protocol.Release}, waiters[:200]...), holders, waiters[200:]},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, r *rig) {
				r.do(t, acquire(len(holders), all...)...)
				r.do(t, each(protocol.Op{Verb: protocol.Heartbeat, TTL: time.Hour}, waiters[:50]...)...) // these are read last
				rdb := redis.NewClient(r.rdb.Options())
				defer rdb.Close()
				rdb.AddHook(&betweenPages{func() { r.do(t, test.meanwhile...) }})
				snap := r.inspect(t, rdb)
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

// TestInspectForIsExactAboutTheRate where more leases end before what counts than a look without records
// shows; above a page it reads no more.
func TestInspectForIsExactAboutTheRate(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r *rig) {
		const hour = time.Hour
		held := 0
		for _, test := range []struct {
			hold  int
			exact bool
		}{{page - 100, true}, {page, false}} {
			more := ids(test.hold)[held:]
			held = test.hold
			declared := terms(2*page, func(t *protocol.Terms) { t.Rate = protocol.Rate{N: held, Per: hour} })
			r.do(t, each(protocol.Op{Verb: protocol.Acquire, Terms: declared}, more...)...)
			snap, err := New(r.store).InspectFor(t.Context(), r.key, 1)
			if err != nil || snap.Spent != held {
				t.Fatalf("%d held: %+v, %v", held, snap, err)
			}
			if rest := snap.Rest(1); rest == 0 || (rest > hour/2) != test.exact {
				t.Errorf("%d held: no room for %v", held, rest)
			}
			if snap, err = New(r.store).InspectFor(t.Context(), r.key, 0); err != nil || snap.Leases != nil {
				t.Errorf("%d leases were read, %v, and there is room", len(snap.Leases), err)
			}
		}
	})
}

// TestPauseIsSeenAmongMany deadlines that are nearer, without records, too.
func TestPauseIsSeenAmongMany(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r *rig) {
		r.do(t, each(protocol.Op{Verb: protocol.Release, Flag: true}, ids(20)...)...) // tombstones
		r.do(t, protocol.Op{Verb: protocol.Cool, TTL: time.Hour, Who: "ann"})
		for _, records := range []bool{true, false} {
			snap, err := New(r.store).Inspect(t.Context(), r.key, records)
			if err != nil || !snap.Paused || snap.Who != "ann" || snap.Ends-snap.Now < time.Minute.Milliseconds() {
				t.Errorf("with records: %v: %+v, %v", records, snap, err)
			}
		}
	})
}
