package promise_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// ratesAre compares what an operator sees of rates.
func ratesAre(e *testenv.Env, what string, got []berthadmin.Rate, want ...berthadmin.Rate) {
	e.Helper()
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = got[i] == want[i]
	}
	if !same {
		e.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// TestOperatorSetsTheRatesOfAUnit: those of other units stay, both values are told and recorded, and
// whoever fits now is granted in that step.
func TestOperatorSetsTheRatesOfAUnit(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const minute = time.Minute
		sem := e.Peer().Sem(9, berth.Rate(60, minute), berth.Rate(1000, time.Hour).Of("tokens"))
		e.Release(e.Hold(sem, berth.Cost(900).Of("tokens")))
		waits := e.Queue(sem, berth.Cost(300).Of("tokens"))
		in := e.Inspector.Because("ann@ops-1", "the contract has changed")
		before, after, err := in.SetRates(e.Ctx, "s", "tokens", berthadmin.Rate{N: 2000, Per: time.Hour}, berthadmin.Rate{N: 5, Per: time.Second, Burst: 4000})
		e.Must(err)
		ratesAre(e, "before", before, berthadmin.Rate{Unit: "tokens", N: 1000, Per: time.Hour})
		if len(after) != 2 || after[0].Burst != 4000 || after[1].N != 2000 || after[1].Spent != 1200 {
			e.Errorf("after: %+v", after)
		}
		e.Release(waits.Granted())
		before, after, err = in.SetRates(e.Ctx, "s", "tokens")
		e.Must(err)
		if len(before) != 2 || len(after) != 0 {
			e.Errorf("taken away: %+v, %+v", before, after)
		}
		ratesAre(e, "the others", e.Show().Rates, berthadmin.Rate{N: 60, Per: minute, Spent: 2})
		if _, _, err = in.SetRates(e.Ctx, "s", "", berthadmin.Rate{N: 60, Per: minute}); err != nil {
			e.Fatal(err)
		}
		var told []string
		for entry, err := range e.Inspector.Audit(e.Ctx) {
			e.Must(err)
			told = append(told, entry.Verb+": "+entry.From+" -> "+entry.What)
		}
		const set = "5 tokens in 1s and a burst of 4000, 2000 tokens in 1h0m0s"
		want := []string{"resize --rate: " + set + " -> no tokens rate", "resize --rate: 1000 tokens in 1h0m0s -> " + set}
		if len(told) != 2 || told[0] != want[0] || told[1] != want[1] { // what changed nothing is not recorded
			e.Errorf("recorded: %q, want %q", told, want)
		}
	})
}

// TestRatesThatCannotBeAreRefused, and nothing is changed.
func TestRatesThatCannotBeAreRefused(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const minute = time.Minute
		rate := func(n int, per time.Duration) berthadmin.Rate { return berthadmin.Rate{N: n, Per: per} }
		if _, _, err := e.Inspector.SetRates(e.Ctx, "s", "", rate(5, minute)); !errors.Is(err, berthadmin.ErrNotFound) {
			e.Errorf("an idle semaphore: %v", err)
		}
		e.Hold(e.Peer().Sem(9, berth.Rate(60, minute), berth.Rate(1000, time.Hour).Of("tokens")))
		was := e.Show().Rates
		for name, set := range map[string]struct {
			unit  string
			rates []berthadmin.Rate
		}{
			"0":                       {"", []berthadmin.Rate{rate(0, minute)}},
			"a window that is none":   {"", []berthadmin.Rate{rate(1, 0)}},
			"a long window":           {"", []berthadmin.Rate{rate(1, 31*24*time.Hour)}},
			"a unit that is none":     {"Tokens", []berthadmin.Rate{rate(1, minute)}},
			"none of such a unit":     {"none", nil},
			"one window twice":        {"", []berthadmin.Rate{rate(1, minute), rate(2, minute)}},
			"more than four together": {"", []berthadmin.Rate{rate(1, minute), rate(1, time.Hour), rate(1, 2*time.Hour), rate(1, 3*time.Hour)}},
		} {
			if _, _, err := e.Inspector.SetRates(e.Ctx, "s", set.unit, set.rates...); !errors.Is(err, berth.ErrInvalid) {
				e.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
		ratesAre(e, "as before", e.Show().Rates, was...)
	})
}

// TestOperatorSeesWhatKeepsAWaiterOut: its costs by unit, the rate, and until when, for the first in the
// queue, in a list as in full.
func TestOperatorSeesWhatKeepsAWaiterOut(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(9, berth.Rate(60, time.Minute), berth.Rate(1000, time.Hour).Of("tokens"))
		e.Release(e.Hold(sem, berth.Cost(900).Of("tokens")))
		e.Queue(sem, berth.Cost(300).Of("tokens"), berth.Cost(7).Of("unknown"))
		e.Queue(sem, berth.Weight(2), berth.Cost(50).Of("tokens"))
		st := e.Show()
		first, second := st.Queue[0], st.Queue[1]
		if len(first.Costs) != 2 || first.Costs[""] != 1 || first.Costs["tokens"] != 300 || second.Costs[""] != 2 || second.Costs["tokens"] != 50 {
			e.Errorf("costs: %v and %v", first.Costs, second.Costs)
		}
		if first.KeptBy == nil || first.KeptBy.Unit != "tokens" || first.KeptBy.Spent != 900 || second.KeptBy != nil {
			e.Errorf("kept out by %+v and %+v", first.KeptBy, second.KeptBy)
		}
		for sum, err := range e.Inspector.List(e.Ctx) {
			e.Must(err)
			ratesAre(e, "listed", sum.Rates, berthadmin.Rate{N: 60, Per: time.Minute, Spent: 1}, berthadmin.Rate{Unit: "tokens", N: 1000, Per: time.Hour, Spent: 900})
			for _, rest := range []time.Duration{sum.RetryAfter, st.RetryAfter} {
				if rest < 58*time.Minute || rest > time.Hour*101/100+time.Second {
					e.Errorf("room in %v", rest)
				}
			}
		}
	})
}

// TestReleasedHandleIsSettled: who releases a lease that no process holds says what it has cost, in the
// same step.
func TestReleasedHandleIsSettled(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		sem := p.Sem(9, berth.Rate(60, time.Minute), berth.Rate(1000, time.Hour).Of("tokens"))
		handle, err := e.Hold(sem, berth.Cost(900).Of("tokens")).Detach(e.Ctx)
		e.Must(err)
		waits := e.Queue(sem, berth.Cost(300).Of("tokens"))
		for _, bad := range []berth.CostOption{berth.Cost(-1), berth.Cost(1).Of("Tokens"), berth.Cost(berth.MaxLimit + 1)} {
			if err := p.ReleaseHandle(e.Ctx, handle, bad); !errors.Is(err, berth.ErrInvalid) {
				e.Errorf("%+v: %v", bad, err)
			}
		}
		e.Must(p.ReleaseHandle(e.Ctx, handle, berth.Cost(10).Of("tokens"), berth.Cost(5).Of("unknown")))
		e.Release(waits.Granted())
		ratesAre(e, "settled", e.Show().Rates, berthadmin.Rate{N: 60, Per: time.Minute, Spent: 2}, berthadmin.Rate{Unit: "tokens", N: 1000, Per: time.Hour, Spent: 310})
		if lost, ok := errors.AsType[*berth.LostError](p.ReleaseHandle(e.Ctx, handle, berth.Cost(0).Of("tokens"))); !ok {
			e.Errorf("released twice: %v", lost)
		}
	})
}

// TestRateWithoutALimitIsAllThatLimits a new semaphore; one that has a limit keeps it.
func TestRateWithoutALimitIsAllThatLimits(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p := e.Peer()
		rated := p.Named("mail", 0, berth.Rate(5, time.Hour))
		e.Hold(rated)
		e.Hold(rated)
		e.WantErr(e.Try(p.Named("mail", 0), berth.Cost(4)), berth.ErrBusy)
		st, err := e.Inspector.Show(e.Ctx, "mail")
		e.Must(err)
		if st.Limit != berth.NoLimit || st.InUse != 2 {
			e.Errorf("limit %d, %d in use", st.Limit, st.InUse)
		}
		e.Hold(p.Named("db", 3))
		e.Hold(p.Named("db", 0, berth.Rate(5, time.Hour)))
		e.Hold(p.Named("plain", 0))
		for name, limit := range map[string]int{"db": 3, "plain": 1} {
			if st, err := e.Inspector.Show(e.Ctx, name); err != nil || st.Limit != limit {
				e.Errorf("%s: %+v, %v", name, st, err)
			}
		}
	})
}

// TestWhoWaitsLearnsForHowLongTheRateKeepsItOut: not before something leaves the window, whatever else
// ends before that. A pause without end has no time.
func TestWhoWaitsLearnsForHowLongTheRateKeepsItOut(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		sem := e.Peer().Sem(9, berth.Rate(100, time.Minute), berth.Rate(10, time.Hour).Of("tokens"), berth.Rate(1, time.Hour).Of("api").Burst(2))
		e.Release(e.Hold(sem, berth.Cost(9).Of("tokens"), berth.Cost(0).Of("api")))
		waits := func(cost berth.CostOption) berth.Place {
			ctx, leave := context.WithCancel(e.Ctx)
			defer leave()
			_, err := sem.Acquire(ctx, cost, berth.OnQueued(func(berth.Place) { leave() }))
			wait, ok := errors.AsType[*berth.WaitError](err)
			if !ok || !wait.Queued {
				e.Fatalf("cost %v: %v", cost, err)
			}
			return wait.Place
		}
		e.Release(e.Hold(sem, berth.Cost(0).Of("tokens"), berth.Cost(1).Of("api")))
		for _, unit := range []string{"tokens", "api"} {
			const hour = time.Hour
			place := waits(berth.Cost(2).Of(unit))
			if place.Unit != unit || place.RetryAfter < hour-2*time.Minute || place.RetryAfter > hour*101/100+time.Second {
				e.Errorf("%s: kept out by %q for %v", unit, place.Unit, place.RetryAfter)
			}
		}
		e.Must(e.Inspector.Pause(e.Ctx, "s"))
		if place := waits(berth.Cost(2).Of("tokens")); !place.Paused || place.RetryAfter != 0 {
			e.Errorf("paused without end, for %v", place.RetryAfter)
		}
		busy, ok := errors.AsType[*berth.BusyError](e.Try(sem, berth.Cost(2).Of("tokens")))
		if !ok || !busy.Paused || busy.RetryAfter != 0 {
			e.Errorf("paused without end: %+v", busy)
		}
	})
}
