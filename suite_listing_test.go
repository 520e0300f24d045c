package berth_test

import (
	"errors"
	"testing"

	"github.com/berth-go/berth"
)

// TestListingLeavesTheKeysTTL: an operator's client, which does not know whether
// the server evicts, must not make keys immortal that would outlive a crash.
func TestListingLeavesTheKeysTTL(t *testing.T) {
	exactly(t, func(_ *testing.T, e *env) {
		lease := e.hold(e.peer().sem(1))
		key := e.prefix + ":{" + name + "}"
		for _, ttl := range []string{"with a TTL", "without"} {
			before := e.raw.PTTL(e.ctx, key).Val()
			if _, err := listed(e.eye, e.ctx); err != nil {
				e.t.Fatal(err)
			}
			if after := e.raw.PTTL(e.ctx, key).Val(); (before > 0) != (after > 0) {
				e.t.Errorf("%s: TTL %v before listing, %v after", ttl, before, after)
			}
			e.must(e.raw.PExpire(e.ctx, key, e.ttl*10).Err())
		}
		e.release(lease)
	})
}

// TestListShowsWhatIsSoundBesideWhatIsNot: one damaged semaphore is reported and
// hides no other.
func TestListShowsWhatIsSoundBesideWhatIsNot(t *testing.T) {
	each(t, func(_ *testing.T, e *env) {
		lease := e.hold(e.peer().sem(1))
		e.must(e.raw.Set(e.ctx, e.prefix+":{damaged}", "foreign", 0).Err())
		all, err := listed(e.eye, e.ctx)
		if !errors.Is(err, berth.ErrCorrupt) || len(all) != 1 || all[0].Name != name {
			e.t.Errorf("listed %v, %v", all, err)
		}
		e.must(e.raw.Del(e.ctx, e.prefix+":{damaged}").Err())
		e.release(lease)
	})
}
