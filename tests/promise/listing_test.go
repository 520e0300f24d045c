package promise_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestListingLeavesTheKeysTTL: an operator's client, which does not know whether
// the server evicts, must not make keys immortal that would outlive a crash.
func TestListingLeavesTheKeysTTL(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		lease := e.Hold(e.Peer().Sem(1))
		key := e.Prefix + ":{" + testenv.Name + "}"
		for _, ttl := range []string{"with a TTL", "without"} {
			before := e.Redis.PTTL(e.Ctx, key).Val()
			if _, err := testenv.Listed(e.Inspector.List(e.Ctx)); err != nil {
				e.Fatal(err)
			}
			if after := e.Redis.PTTL(e.Ctx, key).Val(); (before > 0) != (after > 0) {
				e.Errorf("%s: TTL %v before listing, %v after", ttl, before, after)
			}
			e.Must(e.Redis.PExpire(e.Ctx, key, e.TTL*10).Err())
		}
		e.Release(lease)
	})
}

// TestListShowsWhatIsSoundBesideWhatIsNot: one damaged semaphore is reported and
// hides no other.
func TestListShowsWhatIsSoundBesideWhatIsNot(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		lease := e.Hold(e.Peer().Sem(1))
		e.Must(e.Redis.Set(e.Ctx, e.Prefix+":{damaged}", "foreign", 0).Err())
		all, err := testenv.Listed(e.Inspector.List(e.Ctx))
		if !errors.Is(err, berth.ErrCorrupt) || len(all) != 1 || all[0].Name != testenv.Name {
			e.Errorf("listed %v, %v", all, err)
		}
		e.Must(e.Redis.Del(e.Ctx, e.Prefix+":{damaged}").Err())
		e.Release(lease)
	})
}

// TestListCountsOnlyWhoIsAlive: a holder and a waiter of which nothing was heard any more are not
// in the numbers, though nobody else has made a call meanwhile.
func TestListCountsOnlyWhoIsAlive(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		live, dead := e.Peer(), e.Peer()
		e.Hold(live.Sem(2, berth.TTL(time.Hour)))
		e.Hold(dead.Sem(2))
		e.Queue(dead.Sem(2))
		e.Hold(dead.Named("of the dead alone", 1))
		dead.Crash()
		e.Pass(2 * e.TTL)
		all, err := testenv.Listed(e.Inspector.List(e.Ctx))
		e.Must(err)
		if len(all) != 1 || all[0].InUse != 1 || all[0].Holders != 1 || all[0].Waiting != 0 || all[0].Expired != 0 {
			e.Errorf("listed %+v", all)
		}
	})
}
