package protocol

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// What is folded, and what is not.

// TestLimitOfNothing: what declares no permits waits, and is not folded.
func TestLimitOfNothing(t *testing.T) {
	t.Parallel()
	tellAll(t, map[string][][]Op{
		"waits, and leaves": {ask(0, 0, 1), back(0)},
		"until a resize":    {ask(0, 0, 1), {{Verb: Resize, N: 1}}, renew(0), back(0)},
		"a try":             {ask(0, 0, 1, func(t *Terms) { t.Wait = false })},
	})
}

// TestFoldedReadsAsUnfolded: whatever the label, Go reads of a folded semaphore
// what the script makes of it.
func TestFoldedReadsAsUnfolded(t *testing.T) {
	t.Parallel()
	for i, label := range []string{
		"", " ", "two words", " A1 1 30000 0 0 9 15000 5 x", "two\nlines\r\n", "\xff\xfe", "nul\x00nul", "\v\f\t", "日本", strings.Repeat("x", 5000),
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			onBoth(t, form{keeps: true}, func(t *testing.T, r *rig) {
				r.one(t, Op{Verb: Acquire, ID: "s0.1", Terms: terms(3, func(t *Terms) { t.Label = label })})
				if n := r.rdb.HLen(t.Context(), r.keys.State).Val(); n != 1 {
					t.Fatalf("not folded: %d fields", n)
				}
				var seen [2]*Snapshot
				for i := range seen {
					snap, err := r.stores[0].Inspect(t.Context(), r.keys, true)
					if err != nil {
						t.Fatal(err)
					}
					if len(snap.Leases) != 1 || snap.Leases[0].Label != label {
						t.Fatalf("label %.100q: %.500q", label, fmt.Sprint(snap.Leases))
					}
					snap.Now, seen[i] = 0, snap
					r.one(t, Op{Verb: Release, ID: "s0.9"}) // unfolds
				}
				if !reflect.DeepEqual(seen[0], seen[1]) {
					t.Errorf("folded %+v\nunfolded %+v", seen[0], seen[1])
				}
			})
		})
	}
}

// TestPartsOfAMillisecond: what the script never sees of a TTL is not promised.
func TestPartsOfAMillisecond(t *testing.T) {
	t.Parallel()
	tellAll(t, map[string][][]Op{
		"acquired": {ask(0, 3, 1, func(t *Terms) { t.TTL = 2*time.Second + 999*time.Microsecond }), back(0)},
		"renewed":  {ask(0, 3, 1), {{Verb: Renew, ID: cast[0], TTL: 2*time.Second + 999*time.Microsecond}}, back(0)},
	})
}

// TestWhileThePolicyIsNotKnown: a process that does not know yet whether the server
// evicts folds nothing, gives keys no TTL, and takes none away; and what it leases
// does not outlive a TTL that they have.
func TestWhileThePolicyIsNotKnown(t *testing.T) {
	t.Parallel()
	onBoth(t, form{}, func(t *testing.T, r *rig) {
		r.stores[0] = NewStore(r.rdb, r.prefix, "s0", 100, "host")
		long := Op{Verb: Acquire, ID: "s0.1", Terms: terms(3, func(t *Terms) { t.TTL = time.Hour })}
		r.do(t, 0, long)
		if n := r.rdb.HLen(t.Context(), r.keys.State).Val(); n != 4 {
			t.Errorf("alone: %d fields, want settings, counts, the note and the lease", n)
		}
		wantTTLs(t, r, -1)
		for _, keeps := range []bool{false, true} {
			r.reset(t)
			r.stores[1].Evicting(!keeps)
			r.do(t, 1, Op{Verb: Acquire, ID: "s1.1", Terms: terms(3)})
			for _, op := range []Op{long, {Verb: Renew, ID: "s0.1", TTL: 2 * time.Hour}} {
				r.do(t, 0, op)
				if !keeps {
					wantTTLs(t, r, -1)
				} else if op.Verb == Acquire {
					wantTTLs(t, r, time.Hour)
				} else {
					wantTTLs(t, r, 2*time.Hour)
				}
			}
		}
	})
}

// wantTTLs fails unless both keys live for longer than least, or, if that is
// negative, for ever.
func wantTTLs(t *testing.T, r *rig, least time.Duration) {
	t.Helper()
	for _, key := range []string{r.keys.State, r.keys.Order} {
		if ttl := r.rdb.PTTL(t.Context(), key).Val(); least < 0 && ttl != -1 || least > 0 && ttl <= least {
			t.Errorf("%s has the TTL %v, want more than %v (negative: none)", key, ttl, least)
		}
	}
}

// TestOneIDBeginsLikeAnother: only the whole id is the lease's.
func TestOneIDBeginsLikeAnother(t *testing.T) {
	t.Parallel()
	long := each(Op{Verb: Acquire, Terms: terms(3)}, "s0.10")
	tellAll(t, map[string][][]Op{
		"released": {long, back(0), each(Op{Verb: Release}, "s0.10")},
		"renewed":  {long, renew(0), each(Op{Verb: Renew, TTL: time.Minute}, "s0.10")},
	})
}

// TestAdoptedFromSomebodyAlike: a lease that is renewed by another process is that
// process's from then on, however much the two have in common.
func TestAdoptedFromSomebodyAlike(t *testing.T) {
	t.Parallel()
	onBoth(t, form{keeps: true}, func(t *testing.T, r *rig) {
		shorter := NewStore(r.rdb, r.prefix, "s0", 100, "hos")
		shorter.Evicting(false)
		for name, heir := range map[string]*Store{"its owner begins the same": shorter, "its owner is in the label": r.stores[1]} {
			r.reset(t)
			label := "of " + recorded(ownerOf(heir), "s0.1") + " once"
			r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: terms(3, func(t *Terms) { t.Label = label })})
			if _, err := heir.Do(t.Context(), r.keys, 0, []Op{{Verb: Renew, ID: "s0.1", TTL: time.Minute}}); err != nil {
				t.Fatal(err)
			}
			if record, want := r.dump(t).fields["s0.1"], " "+recorded(ownerOf(heir), "s0.1")+" "+label; !strings.HasSuffix(record, want) {
				t.Errorf("%s: %q does not end with %q", name, record, want)
			}
		}
	})
}
