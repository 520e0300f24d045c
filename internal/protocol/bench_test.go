package protocol

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// BenchmarkScript is what the steps cost the server, by its own account (INFO
// commandstats), beside two trivial scripts. A pair is an acquire and a release. In "crowd"
// every acquire queues and every release hands off; in "rated" it does so with a rate, in
// "tenants" for five tenants in turn. In "renew" it is one renewal of a lease that is alone, and
// in "beat" one heartbeat of many in a call, of which the first asks for its place.
// "batch n" has n operations in each call, and "mixed" 64, with more releases and more
// acquires in turn.
func BenchmarkScript(b *testing.B) {
	rdb := redistest.Start(b).Client(b)
	b.Cleanup(func() { rdb.ShutdownNoSave(context.Background()) }) // so that scripts/instructions gets its report
	trivial := redis.NewScript(`return redis.call('EXISTS', KEYS[1])`)
	b.Run("trivial", func(b *testing.B) {
		measure(b, rdb, 1, func(int) {
			for range 2 {
				_ = trivial.Run(b.Context(), rdb, []string{"k"}, 1, 2, 3)
			}
		})
	})
	st := NewStore(rdb, "bench", "abcdefghij", 12345, "host")
	st.Evicting(false)
	b.Run("idle", func(b *testing.B) { benchSteps(b, rdb, st, 1, 1) })
	b.Run("crowd", func(b *testing.B) { benchCrowd(b, rdb, st, func(int, *Terms) {}) })
	b.Run("rated", func(b *testing.B) {
		benchCrowd(b, rdb, st, func(_ int, t *Terms) { t.Rates = ":1073741824/1000" })
	})
	b.Run("rates", func(b *testing.B) {
		benchCrowd(b, rdb, st, func(_ int, t *Terms) { t.Rates, t.Costs = ":1073741824/1000,t:1073741824/60000", "t:12" })
	})
	b.Run("tenants", func(b *testing.B) {
		benchCrowd(b, rdb, st, func(i int, t *Terms) { t.Tenant = fmt.Sprint("tenant", i%5) })
	})
	b.Run("renew", func(b *testing.B) { benchRenew(b, rdb, st) })
	b.Run("beat", func(b *testing.B) { benchBeat(b, rdb, st) })
	b.Run("mixed", func(b *testing.B) { benchMixed(b, rdb, st) })
	for _, n := range []int{16, 64} {
		b.Run(fmt.Sprintf("batch%d", n), func(b *testing.B) { benchSteps(b, rdb, st, n/2, 1000) })
	}
}

func benchTerms(limit int) *Terms {
	return &Terms{Wait: true, Weight: 1, TTL: 30 * time.Second, Heartbeat: 10 * time.Second, QueueLimit: 1 << 30, Limit: limit}
}

func benchID(i int) string { return fmt.Sprintf("abcdefghij.klmnopqrstuvwxyz.%d", i) }

// benchSteps releases what the last step acquired, and acquires n anew, in one
// call; with n 1 in two.
func benchSteps(b *testing.B, rdb *redis.Client, st *Store, n, limit int) {
	b.Helper()
	terms, k := benchTerms(limit), st.Key("steps")
	var held []Op
	measure(b, rdb, n, func(i int) {
		ops := held
		held = nil
		for j := range n {
			ops = append(ops, Op{Verb: Acquire, ID: benchID(i*n + j), Terms: terms})
			held = append(held, Op{Verb: Release, ID: benchID(i*n + j)})
		}
		mustDo(b, st, k, ops)
		if n == 1 {
			mustDo(b, st, k, held)
			held = nil
		}
	})
	if held != nil {
		mustDo(b, st, k, held)
	}
}

// benchMixed has 24 releases and 40 acquires in a call, or the other way round:
// calls of many goroutines on one semaphore are not of equal halves, and slots
// become free.
func benchMixed(b *testing.B, rdb *redis.Client, st *Store) {
	b.Helper()
	terms, k, held, next := benchTerms(1000), st.Key("mixed"), []Op(nil), 0
	ids := func(n int) (ops []Op) {
		for range n {
			ops = append(ops, Op{Verb: Acquire, ID: benchID(next), Terms: terms})
			next++
		}
		return ops
	}
	release := func(ops []Op) (out []Op) {
		for _, op := range ops {
			out = append(out, Op{Verb: Release, ID: op.ID})
		}
		return out
	}
	held = ids(40)
	mustDo(b, st, k, held)
	measure(b, rdb, 32, func(i int) {
		n := 24 + i%2*16
		fresh := ids(64 - n)
		mustDo(b, st, k, append(release(held[:n]), fresh...))
		held = append(held[n:len(held):len(held)], fresh...)
	})
	mustDo(b, st, k, release(held))
}

// benchCrowd has ten waiters; set completes the terms of request i.
func benchCrowd(b *testing.B, rdb *redis.Client, st *Store, set func(i int, t *Terms)) {
	b.Helper()
	k := st.Key(b.Name())
	acquire := func(i int) {
		terms := benchTerms(1)
		set(i, terms)
		mustDo(b, st, k, []Op{{Verb: Acquire, ID: benchID(i), Terms: terms}})
	}
	const waiters = 10
	for i := range waiters {
		acquire(i)
	}
	last := 0
	measure(b, rdb, 1, func(i int) {
		mustDo(b, st, k, []Op{{Verb: Release, ID: benchID(i)}})
		acquire(i + waiters)
		last = i
	})
	for i := range waiters {
		mustDo(b, st, k, []Op{{Verb: Release, ID: benchID(last + 1 + i)}})
	}
}

func benchRenew(b *testing.B, rdb *redis.Client, st *Store) {
	b.Helper()
	k := st.Key("renew")
	mustDo(b, st, k, []Op{{Verb: Acquire, ID: benchID(0), Terms: benchTerms(1)}})
	measure(b, rdb, 1, func(int) { mustDo(b, st, k, []Op{{Verb: Renew, ID: benchID(0), TTL: 30 * time.Second}}) })
	mustDo(b, st, k, []Op{{Verb: Release, ID: benchID(0)}})
}

// benchBeat has 64 waiters in the queue, all of one process.
func benchBeat(b *testing.B, rdb *redis.Client, st *Store) {
	b.Helper()
	k, terms, beats := st.Key("beat"), benchTerms(1), []Op(nil)
	for i := range 65 {
		mustDo(b, st, k, []Op{{Verb: Acquire, ID: benchID(i), Terms: terms}})
		if i > 0 {
			beats = append(beats, Op{Verb: Heartbeat, ID: benchID(i), TTL: terms.Heartbeat, Flag: i == 1})
		}
	}
	measure(b, rdb, len(beats), func(int) { mustDo(b, st, k, beats) })
	for i := range 65 {
		mustDo(b, st, k, []Op{{Verb: Release, ID: benchID(64 - i)}})
	}
}

func mustDo(b *testing.B, st *Store, k Key, ops []Op) {
	if _, err := st.Do(b.Context(), k, 0, ops); err != nil {
		b.Fatal(err)
	}
}

// measure runs step b.N times and reports the server's time for each of the
// pairs in it.
func measure(b *testing.B, rdb *redis.Client, pairs int, step func(i int)) {
	b.Helper()
	ctx := context.Background()
	rdb.ConfigResetStat(ctx)
	for i := range b.N {
		step(i)
	}
	b.StopTimer()
	var calls int
	var usec float64
	stat := rdb.InfoMap(ctx, "commandstats").Val()["Commandstats"]["cmdstat_evalsha"]
	if _, err := fmt.Sscanf(stat, "calls=%d,usec=%f,", &calls, &usec); err != nil {
		b.Fatalf("%q: %v", stat, err)
	}
	b.ReportMetric(usec/float64(b.N*pairs), "server-us/pair")
}
