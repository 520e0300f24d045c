package protocol

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// atRate are terms of a request that does not wait, with rates.
func atRate(rates ...Rate) *Terms {
	set, err := JoinRates(rates...)
	if err != nil {
		panic(err)
	}
	return terms(1<<30, func(t *Terms) { t.Wait, t.Rates = false, set })
}

// take acquires and releases under some id of its own.
func (r *rig) take(t *testing.T, n int, terms *Terms) Reply {
	t.Helper()
	id := fmt.Sprintf("s0.%d", n)
	r.do(t, 0, Op{Verb: Acquire, ID: id, Terms: terms})
	reply, _ := r.do(t, 0, Op{Verb: Release, ID: id})
	return reply
}

// TestNewWindowBoundsWhatWasGrantedBefore: an hour's grants count for no longer than a new window
// of a second, and a refusal says so. Where the rate was taken away in between, nothing counts.
func TestNewWindowBoundsWhatWasGrantedBefore(t *testing.T) {
	t.Parallel()
	r, now := embedded(t, false), start
	for i := range 50 {
		now = now.Add(time.Minute / 2)
		r.mr.SetTime(now)
		r.take(t, i, atRate(Rate{N: 5000, Per: time.Hour}))
	}
	try := Op{Verb: Acquire, ID: "s0.try", Terms: atRate(Rate{N: 1, Per: time.Second})}
	got := r.one(t, try)
	if got.Code != Busy || got.Rest <= 0 || got.Rest > 1010*time.Millisecond {
		t.Errorf("%+v, want to wait for a second", got)
	}
	r.mr.SetTime(now.Add(got.Rest - time.Millisecond))
	wantCodes(t, []Result{r.one(t, try)}, Busy)
	r.mr.SetTime(now.Add(got.Rest))
	wantCodes(t, []Result{r.one(t, try)}, Granted)
	r.do(t, 0, Op{Verb: Release, ID: "s0.try"})
	r.do(t, 0, Op{Verb: SetRates})
	wantCodes(t, []Result{r.one(t, try)}, Granted)
}

// TestOldGrantsCountForOneNewWindow from their own time, where the windows differ little.
func TestOldGrantsCountForOneNewWindow(t *testing.T) {
	t.Parallel()
	r := embedded(t, false)
	r.take(t, 1, atRate(Rate{N: 2, Per: time.Minute}))
	r.mr.SetTime(start.Add(20 * time.Second))
	r.take(t, 2, atRate(Rate{N: 2, Per: time.Minute}))
	try := Op{Verb: Acquire, ID: "s0.try", Terms: atRate(Rate{N: 2, Per: 30 * time.Second})}
	got := r.one(t, try)
	if got.Code != Busy || got.Rest < 10*time.Second || got.Rest > 10*time.Second+900*time.Millisecond {
		t.Errorf("%+v, want to wait for 10 s", got)
	}
	longer := Op{Verb: Acquire, ID: "s0.try", Terms: atRate(Rate{N: 2, Per: 2 * time.Minute})}
	if got := r.one(t, longer); got.Code != Busy || got.Rest < 100*time.Second || got.Rest > 102*time.Second {
		t.Errorf("%+v, want to wait for 100 s", got)
	}
}

// TestDeclarationsInTurnKeepFewSums: programs that declare different windows in turn make one member
// of all that they grant, with no more than 400 sums, and refusals are right all the same.
func TestDeclarationsInTurnKeepFewSums(t *testing.T) {
	t.Parallel()
	turns := [][2]time.Duration{
		{time.Second, time.Hour},
		{time.Minute, 63 * time.Second},
		{time.Minute, time.Minute},
		{499 * time.Millisecond, 130 * time.Millisecond},
		{time.Minute, 235 * time.Second},
	}
	if testing.Short() {
		turns = turns[:2]
	}
	for _, windows := range turns {
		r, now := embedded(t, false), start
		rates := [2]Rate{{N: 1000, Per: windows[0]}, {N: 1001, Per: windows[1]}}
		for i := range 500 {
			now = now.Add(windows[0] / 400)
			r.mr.SetTime(now)
			if reply := r.take(t, i, atRate(rates[i%2])); reply.Others > 1 {
				t.Fatalf("%v: %d members", windows, reply.Others)
			}
			if n := strings.Count(r.dump(t).fields["!r"], " "); n > 403 {
				t.Fatalf("%v: %d numbers", windows, n)
			}
		}
		snap, err := Inspect(t.Context(), r.stores[0], r.key, true)
		if err != nil {
			t.Fatal(err)
		}
		try := *atRate(rates[1])
		spent := snap.Budgets(snap.Now)[0].Spent
		try.Costs, _ = JoinCosts(Cost{N: rates[1].N - spent/10})
		want, err := Rest(t.Context(), r.stores[0], r.key, 1, try.Costs)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.one(t, Op{Verb: Acquire, ID: "s0.try", Terms: &try}); got.Code != Busy || got.Rest != want || want == 0 {
			t.Errorf("%v: %+v, want room after %v", windows, got, want)
		}
	}
}

// TestAllRatesAreChargedOrNone: a request that one of several rates refuses costs nothing of any.
func TestAllRatesAreChargedOrNone(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, r *rig) {
		r.reset(t)
		rates, _ := JoinRates(Rate{N: 3, Per: time.Hour}, Rate{Unit: "tokens", N: 1000, Per: time.Hour}, Rate{N: 2, Per: 2 * time.Hour})
		ask := func(id string, costs Costs) Result {
			return r.one(t, Op{Verb: Acquire, ID: id, Terms: terms(9, func(t *Terms) { t.Wait, t.Rates, t.Costs = false, rates, costs })})
		}
		spent := func(want ...int) {
			t.Helper()
			reply, _ := r.do(t, 0)
			for i, b := range reply.Budgets(reply.Now) {
				if b.Spent != want[i] {
					t.Fatalf("of %v %d is spent, want %d", b.Rate, b.Spent, want[i])
				}
			}
		}
		wantCodes(t, []Result{ask("s0.1", "tokens:900")}, Granted)
		spent(1, 1, 900)
		wantCodes(t, []Result{ask("s0.2", "tokens:101"), ask("s0.3", "tokens:1001"), ask("s0.4", ":3,tokens:1")}, Busy, Costly, Costly)
		spent(1, 1, 900)
		wantCodes(t, []Result{ask("s0.5", "tokens:100"), ask("s0.6", "tokens:0")}, Granted, Busy)
		spent(2, 2, 1000)
		r.do(t, 0, Op{Verb: Settle, ID: "s0.1", Costs: "tokens:40,other:7"}, Op{Verb: Release, ID: "s0.5", Costs: Nothing})
		spent(1, 1, 40)
		r.do(t, 0, Op{Verb: Settle, ID: "s0.1", Costs: "tokens:2000"})
		spent(1, 1, 2000)
		wantCodes(t, []Result{ask("s0.7", "tokens:0"), r.one(t, Op{Verb: Settle, ID: "s0.5", Costs: Nothing})}, Busy, Gone)
	})
}

// TestBurstIsGrantedAtOnce and then the bucket fills at its rate, to the millisecond.
func TestBurstIsGrantedAtOnce(t *testing.T) {
	t.Parallel()
	r := embedded(t, false)
	of := atRate(Rate{N: 2, Per: time.Second, Burst: 40})
	for i := range 40 {
		if got := r.one(t, Op{Verb: Acquire, ID: fmt.Sprintf("s0.%d", i), Terms: of}); got.Code != Granted {
			t.Fatalf("the %d-th: %+v", i, got)
		}
	}
	got := r.one(t, Op{Verb: Acquire, ID: "s0.next", Terms: of})
	if got.Code != Busy || got.Rest < 500*time.Millisecond || got.Rest > 501*time.Millisecond {
		t.Errorf("%+v, want to wait for half a second", got)
	}
	r.mr.SetTime(start.Add(got.Rest))
	wantCodes(t, []Result{r.one(t, Op{Verb: Acquire, ID: "s0.next", Terms: of})}, Granted)
	r.mr.SetTime(start.Add(time.Hour))
	reply, _ := r.do(t, 0)
	if reply.Counts() || r.dump(t).exists() {
		t.Errorf("a full bucket: %+v\n%v", reply, r.dump(t))
	}
}

// TestRatesOfOneUnitAreDeclaredApart: an operator's change of one unit leaves the others.
func TestRatesOfOneUnitAreDeclaredApart(t *testing.T) {
	t.Parallel()
	r := embedded(t, true)
	r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: atRate(Rate{N: 3, Per: time.Hour}, Rate{Unit: "tokens", N: 9, Per: time.Hour})})
	for _, step := range []struct {
		op   Op
		want Rates
	}{
		{Op{Verb: SetRates, Only: true, Unit: "tokens", Rates: "tokens:4/60000,tokens:5/1000+2"}, ":3/3600000,tokens:5/1000+2,tokens:4/60000"},
		{Op{Verb: SetRates, Only: true, Unit: ""}, "tokens:5/1000+2,tokens:4/60000"},
		{Op{Verb: SetRates, Only: true, Unit: "", Rates: ":8/1000"}, ":8/1000,tokens:5/1000+2,tokens:4/60000"},
		{Op{Verb: SetRates, Rates: ":7/60000"}, ":7/60000"},
		{Op{Verb: SetRates}, ""},
	} {
		if reply, _ := r.do(t, 0, step.op); reply.Rates != step.want {
			t.Errorf("after %+v: %q, want %q", step.op, reply.Rates, step.want)
		}
	}
}

// TestRatesOfTwoUnitsInOneCall: the second declaration knows the first.
func TestRatesOfTwoUnitsInOneCall(t *testing.T) {
	t.Parallel()
	r := embedded(t, true)
	r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: terms(1)})
	reply, _ := r.do(t, 0, Op{Verb: SetRates, Only: true, Unit: "a", Rates: "a:1/1000"}, Op{Verb: SetRates, Only: true, Unit: "b", Rates: "b:2/1000"})
	if want := Rates("a:1/1000,b:2/1000"); reply.Rates != want {
		t.Errorf("%q, want %q", reply.Rates, want)
	}
}

// TestFifthRateIsRefused, also where it comes by units, and nothing is changed.
func TestFifthRateIsRefused(t *testing.T) {
	t.Parallel()
	r := embedded(t, true)
	r.do(t, 0, Op{Verb: Acquire, ID: "s0.1", Terms: atRate(Rate{N: 2, Per: time.Second}, Rate{Unit: "a", N: 1, Per: time.Second}, Rate{Unit: "b", N: 1, Per: time.Second})})
	before := r.exactly(t)
	two := []Op{{Verb: SetRates, Only: true, Unit: "c", Rates: "c:1/1000"}, {Verb: SetRates, Only: true, Unit: "a", Rates: "a:1/1000,a:2/2000"}}
	_, err := r.stores[0].Do(context.Background(), r.key, 0, two)
	if wantKind(t, err, ErrRejected, ErrRequest); !reflect.DeepEqual(r.exactly(t), before) {
		t.Errorf("changed\n%v\nto\n%v", before, r.exactly(t))
	}
}

// TestRatesAreJoinedOrRefused: what the script would not take is not sent.
func TestRatesAreJoinedOrRefused(t *testing.T) {
	t.Parallel()
	minute := Rate{N: 1, Per: time.Minute}
	with := func(change func(*Rate)) []Rate {
		r := minute
		change(&r)
		return []Rate{r}
	}
	for name, rates := range map[string][]Rate{
		"no number":           with(func(r *Rate) { r.N = 0 }),
		"too large":           with(func(r *Rate) { r.N = MostCost + 1 }),
		"a short window":      with(func(r *Rate) { r.Per = 9 * time.Millisecond }),
		"a long window":       with(func(r *Rate) { r.Per = 31 * 24 * time.Hour }),
		"half a millisecond":  with(func(r *Rate) { r.Per += time.Microsecond }),
		"a burst below zero":  with(func(r *Rate) { r.Burst = -1 }),
		"a refill of years":   with(func(r *Rate) { r.Burst = 1 << 30 }),
		"a unit called none":  with(func(r *Rate) { r.Unit = "none" }),
		"a unit of digits":    with(func(r *Rate) { r.Unit = "9" }),
		"a unit in capitals":  with(func(r *Rate) { r.Unit = "Tokens" }),
		"a long unit":         with(func(r *Rate) { r.Unit = strings.Repeat("a", 17) }),
		"one twice":           {minute, {N: 2, Per: time.Minute}},
		"one twice, one full": {minute, {N: 2, Per: time.Minute, Burst: 9}},
		"five":                {minute, {N: 1, Per: 1e9}, {N: 1, Per: 2e9}, {N: 1, Per: 3e9}, {N: 1, Per: 4e9}},
	} {
		if set, err := JoinRates(rates...); err == nil {
			t.Errorf("%s: %q", name, set)
		}
	}
	all := []Rate{{Unit: "tokens", N: 90000, Per: time.Minute}, {N: 60, Per: time.Minute}, {Unit: "a-b_9", N: 2, Per: time.Second, Burst: 40}, {N: 5, Per: 10 * time.Millisecond}}
	set, err := JoinRates(all...)
	if err != nil || set != ":5/10,:60/60000,a-b_9:2/1000+40,tokens:90000/60000" || len(set.All()) != 4 {
		t.Errorf("%q, %v", set, err)
	}
	for _, costs := range [][]Cost{{{N: -1}}, {{N: MostCost + 1}}, {{"none", 1}}, {{"a", 1}, {"a", 2}}, {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}}} {
		if joined, err := JoinCosts(costs...); err == nil {
			t.Errorf("%q", joined)
		}
	}
}
