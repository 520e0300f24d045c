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

// TestRestIsExact for windows and buckets, without records, too, and however many hold.
func TestRestIsExact(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r *rig) {
		declared := terms(2*page, func(t *protocol.Terms) {
			t.Wait = false
			t.Rates, _ = protocol.JoinRates(
				protocol.Rate{N: page, Per: time.Hour}, protocol.Rate{Unit: "tokens", N: 1, Per: time.Hour, Burst: 3 * page},
			)
		})
		r.do(t, each(protocol.Op{Verb: protocol.Acquire, Terms: declared}, ids(page/2)...)...)
		for _, costs := range []protocol.Costs{":1", ":400", "tokens:1400", ":300,tokens:1499"} {
			ask := *declared
			ask.Costs = costs
			op := []protocol.Op{{Verb: protocol.Acquire, ID: "s0.9999", Terms: &ask}}
			for _, records := range []bool{true, false} {
				snap, err := New(r.store).Inspect(t.Context(), r.key, records)
				if err != nil || snap.Budgets(snap.Now)[0].Spent != page/2 {
					t.Fatalf("%+v, %v", snap, err)
				}
				if costs == ":1" && snap.Rest(1, costs) == 0 {
					continue
				}
				if _, err := r.store.Do(t.Context(), r.key, 0, op); err != nil {
					t.Fatal(err)
				}
				rest := op[0].Result.Rest
				if got := snap.Rest(1, costs); rest == 0 || got < rest || got > rest+time.Minute {
					t.Errorf("%s, records %v: %v, and the script says %v", costs, records, got, rest)
				}
			}
		}
	})
}

// TestHeadIsReadWithItsCosts, without records, too.
func TestHeadIsReadWithItsCosts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r *rig) {
		costly := func(costs protocol.Costs) *protocol.Terms {
			return terms(1, func(t *protocol.Terms) { t.Wait, t.Rates, t.Costs = true, "tokens:9/3600000", costs })
		}
		all := ids(3)
		for i, costs := range []protocol.Costs{"", "tokens:8", "tokens:2"} {
			r.do(t, protocol.Op{Verb: protocol.Acquire, ID: all[i], Terms: costly(costs)})
		}
		for _, records := range []bool{true, false} {
			snap, err := New(r.store).Inspect(t.Context(), r.key, records)
			if err != nil || snap.Head == nil || snap.Head.Costs != "tokens:8" || snap.Head.Weight != 1 || snap.Head.Since != snap.Oldest {
				t.Errorf("with records: %v: %+v, %v", records, snap, err)
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

// TestFirstLeaseIsNoWaiter: who waits is heard of every few seconds, which tells nothing of a holder.
func TestFirstLeaseIsNoWaiter(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, r *rig) {
		long := terms(2, func(t *protocol.Terms) { t.TTL = time.Hour })
		r.do(t, each(protocol.Op{Verb: protocol.Acquire, Terms: long}, "s0.a", "s0.b")...)
		r.do(t, acquire(2, "s0.c", "s0.d")...)
		for _, records := range []bool{false, true} {
			snap, err := New(r.store).Inspect(t.Context(), r.key, records)
			if err != nil {
				t.Fatal(err)
			}
			if left := snap.Lease - snap.Now; left < time.Hour.Milliseconds()*9/10 || snap.Next >= snap.Lease || snap.Head == nil {
				t.Errorf("records %v: a lease expires in %d ms, somebody in %d; %+v", records, left, snap.Next-snap.Now, snap.Head)
			}
		}
		r.do(t, each(protocol.Op{Verb: protocol.Release}, "s0.c", "s0.d")...)
		if snap, err := New(r.store).Inspect(t.Context(), r.key, false); err != nil || snap.Lease != snap.Next || snap.Head != nil {
			t.Errorf("nobody waits: %+v, %v", snap, err)
		}
	})
}
