package judge

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// held is a permit that was believed in from start to end.
func held(start, end time.Duration) Request {
	return Request{Granted: true, Start: start, End: end}
}

// limitCase is what Limit has to say of the requests.
type limitCase struct {
	limit    int
	requests []Request
	want     Verdict // without its Moments
	moments  []Excess
}

func testLimit(t *testing.T, cases map[string]limitCase) {
	t.Helper()
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Limit(tt.requests, tt.limit)
			if !slices.Equal(got.Moments, tt.moments) {
				t.Errorf("moments %v, want %v", got.Moments, tt.moments)
			}
			got.Moments = nil
			if got.Worst != tt.want.Worst || got.Over != tt.want.Over || got.Stolen != tt.want.Stolen || got.Held != tt.want.Held {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestLimitFindsNothingWhereItWasKept(t *testing.T) {
	t.Parallel()
	testLimit(t, map[string]limitCase{
		"nothing":               {1, nil, Verdict{}, nil},
		"one after the other":   {1, []Request{held(0, 10), held(10, 20), held(20, 30)}, Verdict{Held: 1}, nil},
		"the other order":       {1, []Request{held(10, 20), held(0, 10)}, Verdict{Held: 1}, nil},
		"full":                  {3, []Request{held(0, 10), held(0, 10), held(0, 10)}, Verdict{Held: 3}, nil},
		"limit changes nothing": {5, []Request{held(0, 10), held(1, 10), held(2, 5)}, Verdict{Held: 3}, nil},
		"empty belief":          {1, []Request{held(0, 10), held(5, 5)}, Verdict{Held: 1}, nil},
		"not granted":           {1, []Request{held(0, 10), {Asked: 1, End: 9}}, Verdict{Held: 1}, nil},
	})
}

func TestLimitFindsEveryExcess(t *testing.T) {
	t.Parallel()
	testLimit(t, map[string]limitCase{
		"one nanosecond": {1, []Request{held(0, 11), held(10, 20)}, Verdict{Worst: 1, Over: 1, Stolen: 1, Held: 2}, []Excess{{Span{10, 11}, 1}}},
		"one too many":   {2, []Request{held(0, 10), held(1, 10), held(2, 5)}, Verdict{Worst: 1, Over: 3, Stolen: 1, Held: 3}, []Excess{{Span{2, 5}, 1}}},
		"grows in one moment": {
			1,
			[]Request{held(0, 10), held(2, 8), held(4, 6)},
			Verdict{Worst: 2, Over: 6, Stolen: 2, Held: 3},
			[]Excess{{Span{2, 8}, 2}},
		},
		"two moments": {
			1,
			[]Request{held(0, 100), held(10, 20), held(30, 40)},
			Verdict{Worst: 1, Over: 20, Stolen: 2, Held: 2},
			[]Excess{{Span{10, 20}, 1}, {Span{30, 40}, 1}},
		},
		"heavy": {
			3,
			[]Request{{Granted: true, End: 10, Weight: 2}, {Granted: true, Start: 4, End: 6, Weight: 3}},
			Verdict{Worst: 2, Over: 2, Stolen: 2, Held: 5},
			[]Excess{{Span{4, 6}, 2}},
		},
		"handed on while over": {
			1,
			[]Request{held(0, 100), held(10, 20), held(20, 30)},
			Verdict{Worst: 1, Over: 20, Stolen: 1, Held: 2},
			[]Excess{{Span{10, 30}, 1}},
		},
	})
}

// Who is stopped does no work that could be too much.
func TestLimitExcusesWhoIsStopped(t *testing.T) {
	t.Parallel()
	paused := held(0, 100)
	paused.Stopped = Span{10, 90}
	told := held(0, 50) // believed until its deadline, in the middle of the pause
	told.Stopped = Span{10, 90}
	testLimit(t, map[string]limitCase{
		"stopped, others work":   {1, []Request{paused, held(20, 90)}, Verdict{Held: 1}, nil},
		"awake, others work":     {1, []Request{paused, held(20, 95)}, Verdict{Worst: 1, Over: 5, Stolen: 1, Held: 2}, []Excess{{Span{90, 95}, 1}}},
		"over before it woke up": {1, []Request{told, held(20, 95)}, Verdict{Held: 1}, nil},
	})
}

// The sweep agrees with asking at every instant how many believe.
func TestLimitAgreesWithCounting(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		const end = 40
		limit := 1 + rng.IntN(3)
		var requests []Request
		for range rng.IntN(12) {
			from := rng.IntN(end)
			r := held(time.Duration(from), time.Duration(from+rng.IntN(end-from)))
			r.Weight = rng.IntN(3)
			if rng.IntN(3) == 0 {
				stop := rng.IntN(end)
				r.Stopped = Span{time.Duration(stop), time.Duration(stop + rng.IntN(end-stop))}
			}
			requests = append(requests, r)
		}
		var over time.Duration
		worst, most := 0, 0
		first := rng.IntN(end)
		within := Span{time.Duration(first), time.Duration(first + 1 + rng.IntN(end-first))}
		for at := range time.Duration(end) {
			n := 0
			for _, r := range requests {
				stopped := at >= r.Stopped.From && at < r.Stopped.To
				if at >= r.Start && at < r.End && !stopped {
					n += max(1, r.Weight)
				}
			}
			worst = max(worst, n-limit)
			if at >= within.From && at < within.To {
				most = max(most, n)
			}
			if n > limit {
				over++
			}
		}
		if got := Limit(requests, limit); got.Over != over || got.Worst != worst {
			t.Fatalf("over %d by %d, counting says %d by %d: %+v", got.Over, got.Worst, over, worst, requests)
		}
		if got := Held(requests, within); got != most {
			t.Fatalf("%d held within %v, counting says %d: %+v", got, within, most, requests)
		}
	}
}

// asked is a request that the server answered at once and that got its permit at
// start, in one instant.
func asked(at, start time.Duration) Request {
	return Request{Asked: at, Answered: at, Called: start, Granted: true, Start: start, End: start + 1}
}

// refused was asked for, last at called, and got nothing.
func refused(at, called time.Duration) Request {
	return Request{Asked: at, Answered: at, Called: called, End: 99}
}

// numbered is one of which only the number of its grant is known.
func numbered(at, answered, start time.Duration, token int64) Request {
	return Request{Asked: at, Answered: answered, Called: at, Granted: true, Start: start, Token: 1e15 + token}
}

func TestOvertakings(t *testing.T) {
	t.Parallel()
	slow := asked(1, 20)
	slow.Answered = 6
	unsure := asked(1, 20)
	unsure.Called = 10
	for name, tt := range map[string]struct {
		requests []Request
		want     Order
	}{
		"nobody":                   {nil, Order{}},
		"in order":                 {[]Request{asked(1, 10), asked(2, 20), asked(3, 30)}, Order{Requests: 3}},
		"last one first":           {[]Request{asked(1, 20), asked(2, 30), asked(3, 10)}, Order{3, 2, 1}},
		"reversed":                 {[]Request{asked(1, 30), asked(2, 20), asked(3, 10)}, Order{3, 2, 2}},
		"same time":                {[]Request{asked(1, 20), asked(1, 10)}, Order{Requests: 2}},
		"before the first answer":  {[]Request{slow, asked(6, 10)}, Order{Requests: 2}},
		"after the first answer":   {[]Request{slow, asked(7, 10)}, Order{2, 1, 1}},
		"after the last call":      {[]Request{unsure, asked(7, 10)}, Order{Requests: 2}},
		"before the last call":     {[]Request{unsure, asked(7, 9)}, Order{2, 1, 1}},
		"starves":                  {[]Request{refused(1, 99), asked(2, 10), asked(3, 20)}, Order{3, 1, 2}},
		"in line at the end":       {[]Request{refused(1, 1), asked(2, 10), asked(3, 20)}, Order{Requests: 3}},
		"waits at the end":         {[]Request{asked(1, 10), refused(2, 99), refused(3, 99)}, Order{Requests: 3}},
		"heard in another order":   {[]Request{numbered(1, 2, 30, 1), numbered(3, 4, 20, 2)}, Order{Requests: 2}},
		"granted in another order": {[]Request{numbered(1, 2, 20, 2), numbered(3, 4, 30, 1)}, Order{2, 1, 1}},
		"and in line at the end":   {[]Request{refused(1, 1), numbered(3, 4, 30, 1)}, Order{Requests: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Overtakings(tt.requests); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestOvertakingsAgreeWithComparingAll(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	later := func(than time.Duration) time.Duration { return than + time.Duration(rng.IntN(20)) }
	for range 300 {
		var requests []Request
		for range rng.IntN(30) {
			r := Request{Asked: time.Duration(rng.IntN(50)), Granted: rng.IntN(5) > 0, End: 200}
			r.Answered, r.Called = later(r.Asked), later(r.Asked)
			r.Start = later(r.Called)
			requests = append(requests, r)
		}
		want := Order{Requests: len(requests)}
		for _, r := range requests {
			n := 0
			for _, o := range requests {
				if before := o.Granted && o.Asked > r.Answered && o.Start < r.Called; before != o.Overtook(r) {
					t.Fatalf("%+v overtook %+v: %v, want %v", o, r, !before, before)
				} else if before {
					n++
				}
			}
			want.Most = max(want.Most, n)
			if n > 0 {
				want.Overtaken++
			}
		}
		if got := Overtakings(requests); got != want {
			t.Fatalf("got %+v, want %+v: %+v", got, want, requests)
		}
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	waits := Waits([]Request{asked(1, 11), {Asked: 0, End: 50}, asked(3, 4)})
	if len(waits) != 3 || waits[0] != 1 || waits[1] != 10 || waits[2] != 50 {
		t.Errorf("waits %v, want 1 10 50: who never got a permit waited too", waits)
	}
}

func TestWorst(t *testing.T) {
	t.Parallel()
	moments := []Excess{{Span{10, 11}, 1}, {Span{500, 520}, 1}, {Span{530, 540}, 1}, {Span{900, 905}, 3}}
	for name, tt := range map[string]struct {
		moments     []Excess
		run, length time.Duration
		want        Span
	}{
		"all of a short run":   {moments, 1000, 2000, Span{0, 1000}},
		"the middle":           {nil, 1000, 100, Span{450, 550}},
		"where most is":        {moments, 1000, 100, Span{490, 590}},
		"not before the start": {moments[:1], 1000, 500, Span{0, 500}},
		"not behind the end":   {moments[3:], 1000, 500, Span{500, 1000}},
	} {
		if got := Worst(tt.moments, tt.run, tt.length); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
