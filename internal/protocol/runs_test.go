package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Runs of grants: one head of the reply for many, and numbers whose last two
// digits are cut out of a constant.

// wantRun fails unless all these acquires were granted, with tokens that follow
// each other and the slots given, and are stored as they were answered.
func wantRun(t *testing.T, r *rig, names []string, got []Result, slots []int) {
	t.Helper()
	d, terms := r.dump(t), terms(1)
	for i, id := range names {
		want := Result{Code: Granted, Token: got[0].Token + int64(i), Slot: slots[i], Remaining: terms.TTL, Limit: got[0].Limit}
		if got[i] != want {
			t.Fatalf("%s, at %d of the run: got %+v, want %+v", id, i, got[i], want)
		}
		if record, want := d.fields[id], fmt.Sprintf("h 1 %d %d 0 0 %s ", want.Slot, want.Token, recorded(ownerOf(r.stores[0]), id)); record != want {
			t.Fatalf("%s, at %d of the run: stored %q, want %q", id, i, record, want)
		}
	}
	if last := d.counts(t).last; last != got[len(names)-1].Token {
		t.Fatalf("the last token is said to be %d, and it is %d", last, got[len(names)-1].Token)
	}
}

// upTo returns the numbers from one to another, without that.
func upTo(from, to int) (out []int) {
	for n := from; n < to; n++ {
		out = append(out, n)
	}
	return out
}

// TestRunOfGrantsIsNumberedThroughout: tokens follow each other, and slots are the
// lowest there are, in what is answered and in what is stored, however many
// hundreds a run crosses and wherever in its hundred it begins.
func TestRunOfGrantsIsNumberedThroughout(t *testing.T) {
	t.Parallel()
	for _, f := range []form{{}, {keeps: true}, {long: true}} {
		t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) {
			onBoth(t, f, func(t *testing.T, r *rig) {
				for _, unit := range []int{0, 1, 9, 49, 90, 98, 99} {
					r.reset(t)
					if r.mr != nil {
						r.mr.SetTime(start.Truncate(100 * time.Microsecond).Add(time.Duration(unit) * time.Microsecond))
					}
					numberRuns(t, r)
				}
			})
		})
	}
}

// numberRuns fills a semaphore, and again where some have left: then, where the
// clock stands, tokens go on behind the last.
func numberRuns(t *testing.T, r *rig) {
	t.Helper()
	all, acquire := ids(460), Op{Verb: Acquire, Terms: terms(1000)}
	_, got := r.do(t, 0, each(acquire, all[:2]...)...)
	wantRun(t, r, all[:2], got, upTo(0, 2))
	for _, size := range []struct{ from, to int }{{2, 3}, {3, 102}, {102, 203}, {203, 440}} {
		last := got[len(got)-1].Token
		_, got = r.do(t, 0, each(acquire, all[size.from:size.to]...)...)
		wantRun(t, r, all[size.from:size.to], got, upTo(size.from, size.to))
		if got[0].Token <= last {
			t.Fatalf("token %d after %d", got[0].Token, last)
		}
	}
	last := got[len(got)-1].Token
	left := []int{5, 9, 10, 99, 100, 101, 110, 200, 430}
	var ops []Op
	for _, n := range left {
		ops = append(ops, Op{Verb: Release, ID: all[n]})
	}
	_, got = r.do(t, 0, append(ops, each(acquire, all[440:453]...)...)...)
	got = got[len(left):]
	wantRun(t, r, all[440:453], got, slices.Concat(left, upTo(440, 444)))
	if got[0].Token <= last {
		t.Fatalf("token %d after %d", got[0].Token, last)
	}
}

// TestRunAfterHandOffs: tokens of a run go on behind those of the hand-offs in the
// same call, and the last of all is what is kept.
func TestRunAfterHandOffs(t *testing.T) {
	t.Parallel()
	all, acquire, release := ids(120), Op{Verb: Acquire, Terms: terms(110)}, Op{Verb: Release}
	calls := [][]Op{
		each(acquire, all[:110]...),
		each(acquire, all[110:112]...),                                       // both wait
		append(each(release, all[:5]...), each(acquire, all[112:115]...)...), // two hand-offs, a run of three
		append(each(release, all[5:7]...), each(acquire, all[115:117]...)...),
		each(release, all[7]),
		each(acquire, all[117]),
	}
	for _, unit := range []int{0, 84, 95, 97} {
		tellFrom(t, start.Truncate(100*time.Microsecond).Add(time.Duration(unit)*time.Microsecond), calls, 0)
	}
}

// TestNamedTwiceInOneCall: an id that a call names more than once has one lease,
// with one slot, at the end, and no permit is taken or given back twice.
func TestNamedTwiceInOneCall(t *testing.T) {
	t.Parallel()
	all, acquire, release := ids(9), Op{Verb: Acquire, Terms: terms(6)}, Op{Verb: Release}
	calls := func(second []Op) [][]Op {
		return [][]Op{each(acquire, all[:4]...), second, each(acquire, all[6:9]...), each(release, all...)}
	}
	tellAll(t, map[string][][]Op{
		"released":               calls(each(release, all[1], all[1])),
		"released among others":  calls(each(release, all[1], all[2], all[1], all[3])),
		"released by two groups": calls([]Op{{Verb: Release, ID: all[1]}, {Verb: Release, ID: all[2], Flag: true}, {Verb: Release, ID: all[1]}}),
		"acquired":               calls(each(acquire, all[4], all[4])),
		"acquired among others":  calls(each(acquire, all[4], all[5], all[6], all[4])),
		"acquired by two groups": calls([]Op{{Verb: Acquire, ID: all[4], Terms: terms(6)}, {Verb: Acquire, ID: all[4], Terms: terms(6, capped)}}),
		"acquired, and waits":    calls(each(acquire, all[4], all[5], all[6], all[7], all[7])),
		"holds, and acquired":    calls(each(acquire, all[1], all[4])),
		"released and acquired":  calls(append(each(release, all[1], all[2]), each(acquire, all[1], all[4])...)),
		"acquired and released":  calls(append(each(acquire, all[4], all[5]), each(release, all[4])...)),
		"released, then twice":   calls(append(each(release, all[1]), each(acquire, all[4], all[4])...)),
		"released twice, then":   calls(append(each(release, all[1], all[1]), each(acquire, all[4], all[5], all[6])...)),
	})
}

// TestManyGroupsInOneCall: the largest call of the short way, when no two of its
// operations share their words.
func TestManyGroupsInOneCall(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]int{"granted": 1000, "waiting": 1} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, form{keeps: true}, func(t *testing.T, r *rig) {
				var ops []Op
				for i, id := range ids(498) {
					ops = append(ops, Op{Verb: Acquire, ID: id, Terms: terms(limit, func(t *Terms) { t.Label = fmt.Sprint(i) })})
				}
				reply, got := r.do(t, 0, ops...)
				if want := min(limit, len(ops)); reply.Used != want || reply.Waiting != len(ops)-want {
					t.Fatalf("%+v", reply)
				}
				d := r.dump(t)
				for i := range got {
					if record := d.fields[ops[i].ID]; !strings.HasSuffix(record, fmt.Sprint(" ", i)) {
						t.Fatalf("%s = %q", ops[i].ID, record)
					}
				}
			})
		})
	}
}
