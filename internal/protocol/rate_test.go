package protocol

import (
	"fmt"
	"testing"
	"time"
)

// atRate are terms of a request that does not wait, with a rate.
func atRate(rate Rate) *Terms {
	return terms(1<<30, func(t *Terms) { t.Wait, t.Rate = false, rate })
}

// TestNewWindowBoundsWhatWasGrantedBefore: an hour's grants count for no longer than a new window
// of a second, and a refusal says so; and so it is if the rate was taken away in between.
func TestNewWindowBoundsWhatWasGrantedBefore(t *testing.T) {
	t.Parallel()
	for name, between := range map[string][]Op{"at once": nil, "after none": {{Verb: SetRate}}} {
		r, now := embedded(t, false), start
		for i := range 50 {
			now = now.Add(time.Minute / 2)
			r.mr.SetTime(now)
			r.do(t, 0, Op{Verb: Acquire, ID: fmt.Sprintf("s0.%d", i), Terms: atRate(Rate{5000, time.Hour})})
			r.do(t, 0, Op{Verb: Release, ID: fmt.Sprintf("s0.%d", i)})
		}
		for _, op := range between {
			r.do(t, 0, op)
		}
		try := Op{Verb: Acquire, ID: "s0.try", Terms: atRate(Rate{2, time.Second})}
		got := r.one(t, try)
		if got.Code != Busy || got.Rest <= 0 || got.Rest > time.Second+time.Millisecond {
			t.Errorf("%s: %+v, want to wait for a second", name, got)
		}
		r.mr.SetTime(now.Add(got.Rest))
		wantCodes(t, []Result{r.one(t, try)}, Granted)
	}
}

// TestWindowsInTurnKeepFewSums: programs that declare different windows in turn make no member for
// each grant, and refusals are right all the same.
func TestWindowsInTurnKeepFewSums(t *testing.T) {
	t.Parallel()
	turns := [][2]time.Duration{{time.Second, time.Hour}, {time.Minute, 63 * time.Second}, {time.Minute, time.Minute}}
	if testing.Short() {
		turns = turns[:1]
	}
	for _, windows := range turns {
		r, now := embedded(t, false), start
		rates := [2]Rate{{1000, windows[0]}, {1001, windows[1]}}
		most := 0
		for i := range 500 {
			now = now.Add(windows[0] / 400)
			r.mr.SetTime(now)
			r.do(t, 0, Op{Verb: Acquire, ID: fmt.Sprintf("s0.%d", i), Terms: atRate(rates[i%2])})
			reply, _ := r.do(t, 0, Op{Verb: Release, ID: fmt.Sprintf("s0.%d", i)})
			most = max(most, reply.Marks)
		}
		if most > 204 { // BUCKETS
			t.Errorf("%v: %d members", windows, most)
		}
		snap, err := Inspect(t.Context(), r.stores[0], r.key, true)
		if err != nil {
			t.Fatal(err)
		}
		try := *atRate(rates[1])
		try.Cost = rates[1].N - snap.Spent/10
		want, err := Rest(t.Context(), r.stores[0], r.key, try.Cost)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.one(t, Op{Verb: Acquire, ID: "s0.try", Terms: &try}); got.Code != Busy || got.Rest != want || want == 0 {
			t.Errorf("%v: %+v, want room after %v", windows, got, want)
		}
	}
}
