package promise_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestPinnedRatesStayWhateverIsDeclared, in whatever process, and by an operator: until they are unpinned.
func TestPinnedRatesStayWhateverIsDeclared(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const hour = time.Hour
		declared := e.Peer().Sem(9, berth.Rate(60, hour), berth.Rate(1000, hour).Of("tokens"))
		first := e.Hold(declared)
		in := e.Inspector.Because("ann@ops-1", "the provider is slow")
		before, after, err := in.PinRates(e.Ctx, "s", "", berthadmin.Rate{N: 2, Per: hour})
		e.Must(err)
		ratesAre(e, "before", before, berthadmin.Rate{N: 60, Per: hour})
		ratesAre(e, "after", after, berthadmin.Rate{N: 2, Per: hour, Spent: 1})
		e.Release(e.Hold(declared))
		e.WantErr(e.Try(declared), berth.ErrBusy)
		e.WantErr(e.Try(e.Peer().Sem(9, berth.Rate(90, hour))), berth.ErrBusy)
		before, after, err = in.SetRates(e.Ctx, "s", "tokens", berthadmin.Rate{N: 7, Per: hour})
		e.WantErr(err, berthadmin.ErrPinned)
		ratesAre(e, "not declared", after, berthadmin.Rate{Unit: "tokens", N: 1000, Per: hour, Spent: 2})
		if st := e.Show(); !st.RatesPinned || st.Pinned || len(st.Rates) != 2 || st.LimitChanges != 1 || len(before) != 1 {
			e.Errorf("%+v", st.Summary)
		}
		waits := e.Queue(declared)
		e.Must(in.UnpinRates(e.Ctx, "s"))
		waits.Waits() // they stay, until somebody declares others
		e.Release(e.Hold(e.Peer().Sem(9, berth.Rate(90, hour))), first, waits.Granted())
		if st := e.Show(); st.RatesPinned || len(st.Rates) != 1 || st.Rates[0].N != 90 {
			e.Errorf("unpinned: %+v", st.Summary)
		}
		var told []string
		for entry, err := range e.Inspector.Audit(e.Ctx) {
			e.Must(err)
			told = append(told, entry.Verb+": "+entry.From+" -> "+entry.What)
		}
		if want := []string{"unpin --rate:  -> ", "pin --rate: 60 in 1h0m0s -> 2 in 1h0m0s"}; !slices.Equal(told, want) {
			e.Errorf("recorded: %q, want %q", told, want)
		}
	})
}

// TestPinOfRatesIsNotForgotten when nobody is there any more, nor when it pins that there are none; and what
// cannot be pinned changes nothing.
func TestPinOfRatesIsNotForgotten(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		const minute = time.Minute
		if err := e.Inspector.UnpinRates(e.Ctx, "s"); !errors.Is(err, berthadmin.ErrNotFound) {
			e.Errorf("an idle semaphore: %v", err)
		}
		_, _, err := e.Inspector.PinRates(e.Ctx, "s", "", berthadmin.Rate{N: 1, Per: 10 * time.Millisecond})
		e.Must(err)
		e.Release(e.Hold(e.Peer().Sem(9, berth.Rate(60, minute))))
		e.Pass(e.Tick())
		if st := e.Show(); !st.RatesPinned || len(st.Rates) != 1 || st.Rates[0].N != 1 {
			e.Errorf("%+v", st.Summary)
		}
		keys := e.Keys()
		for what, rates := range map[string][]berthadmin.Rate{
			"0": {{Per: minute}}, "no window": {{N: 1}}, "one window twice": {{N: 1, Per: minute}, {N: 2, Per: minute}},
			"more than four": {{N: 1, Per: minute}, {N: 1, Per: 2 * minute}, {N: 1, Per: 3 * minute}, {N: 1, Per: 4 * minute}, {N: 1, Per: 5 * minute}},
		} {
			if _, _, err := e.Inspector.PinRates(e.Ctx, "s", "", rates...); !errors.Is(err, berth.ErrInvalid) {
				e.Errorf("%s: %v, want ErrInvalid", what, err)
			}
		}
		e.Unchanged(keys)
		_, _, err = e.Inspector.PinRates(e.Ctx, "s", "")
		e.Must(err)
		e.Hold(e.Peer().Sem(9, berth.Rate(1, time.Hour)))
		e.Hold(e.Peer().Sem(9, berth.Rate(1, time.Hour)))
		if st := e.Show(); !st.RatesPinned || len(st.Rates) != 0 {
			e.Errorf("pinned to none: %+v", st.Summary)
		}
	})
}
