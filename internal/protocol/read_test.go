package protocol

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// answering is a processor that answers all commands in one way.
type answering struct {
	err  error
	sent []string
}

// Process implements processor.
func (a *answering) Process(_ context.Context, cmd redis.Cmder) error {
	a.sent = append(a.sent, cmd.Name())
	cmd.SetErr(a.err)
	return a.err
}

// TestOnlyAnUnknownScriptIsSentAgain: any other failure may have come after it was executed.
func TestOnlyAnUnknownScriptIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errors.New("reset"), context.DeadlineExceeded, replyError("LOADING"), replyError("ERR BERTHCORRUPT")} {
		a := &answering{err: err}
		if _, got := whereKeysStay.line(t.Context(), a, []any{"evalsha", whereKeysStay.sha, 0}); got == nil || !slices.Equal(a.sent, []string{"evalsha"}) {
			t.Errorf("%v: %v sent, %v", err, a.sent, got)
		}
	}
	a := &answering{err: replyError("NOSCRIPT No matching script.")}
	if _, err := whereKeysStay.line(t.Context(), a, []any{"evalsha", whereKeysStay.sha, 0}); err == nil || !slices.Equal(a.sent, []string{"evalsha", "eval"}) {
		t.Errorf("an unknown script: %v sent, %v", a.sent, err)
	}
}

// TestLongestRenewalOfALoneLease: a number with more than twelve digits is no TTL, also for a lease
// that nobody else has come near, which is renewed in a short way.
func TestLongestRenewalOfALoneLease(t *testing.T) {
	t.Parallel()
	onBoth(t, true, func(t *testing.T, r *rig) {
		r.one(t, Op{Verb: Acquire, ID: "s0.a", Terms: terms(1)})
		r.mustFit(t, []string{"0", "R999999999999", "s0.a"})
		r.mustFit(t, []string{"0", "R1000000000000", "s0.a"})
	})
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
		snap, err := Inspect(t.Context(), r.stores[0], r.key, true)
		if err != nil || len(snap.Leases) != 1 || len(snap.Queue) != 1 {
			t.Fatalf("%+v, %v", snap, err)
		}
		for _, got := range []SeenRecord{snap.Leases[0], snap.Queue[0]} {
			if got.PID != 7 || got.Host != "host" || got.Client != "py1" || got.Extra != "zone=b;job=4" || got.Label != "nightly run" {
				t.Errorf("read as %+v", got)
			}
		}
	})
}
