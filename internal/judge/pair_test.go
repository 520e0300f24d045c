package judge

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// lease is a grant of one permit: asked for, believed in from and to, in a slot.
func lease(asked, start, end time.Duration, slot int, token int64) Request {
	return Request{Asked: asked, Granted: true, Start: start, End: end, Slot: slot, Token: token}
}

func TestSlotsFindsEveryPair(t *testing.T) {
	t.Parallel()
	paused := lease(0, 0, 100, 0, 0)
	paused.Stopped = Span{10, 90}
	for name, tt := range map[string]struct {
		requests []Request
		want     []Pair
	}{
		"nothing":              {nil, nil},
		"one after the other":  {[]Request{lease(0, 10, 20, 0, 0), lease(0, 0, 10, 0, 0)}, nil},
		"different slots":      {[]Request{lease(0, 0, 10, 0, 0), lease(0, 0, 10, 1, 0)}, nil},
		"at once":              {[]Request{lease(0, 9, 20, 0, 0), lease(0, 0, 10, 0, 0)}, []Pair{{1, 0}}},
		"within a long one":    {[]Request{lease(0, 0, 9, 0, 0), lease(0, 1, 2, 0, 0), lease(0, 3, 4, 0, 0)}, []Pair{{0, 1}, {0, 2}}},
		"in turn":              {[]Request{lease(0, 5, 9, 0, 2), lease(0, 0, 5, 0, 1)}, nil},
		"against their tokens": {[]Request{lease(0, 5, 9, 0, 1), lease(0, 0, 5, 0, 2)}, []Pair{{0, 1}}},
		"three":                {[]Request{lease(0, 0, 9, 0, 0), lease(0, 1, 9, 0, 0), lease(0, 2, 9, 0, 0)}, []Pair{{0, 1}, {0, 2}}},
		"stopped meanwhile":    {[]Request{paused, lease(0, 10, 90, 0, 0)}, nil},
		"stopped for too long": {[]Request{paused, lease(0, 10, 91, 0, 0)}, []Pair{{1, 0}}},
		"never believed":       {[]Request{lease(0, 0, 10, 0, 0), lease(0, 5, 5, 0, 0)}, nil},
		"not granted":          {[]Request{lease(0, 0, 10, 0, 0), {Asked: 1, End: 9}}, nil},
	} {
		if got := Slots(tt.requests); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestTokensFindsWhatDoesNotRise(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		requests []Request
		want     []Pair
	}{
		"nothing":                   {nil, nil},
		"in order":                  {[]Request{lease(0, 1, 2, 0, 5), lease(2, 3, 4, 0, 6)}, nil},
		"heard in another order":    {[]Request{lease(0, 9, 10, 0, 5), lease(1, 2, 4, 0, 6)}, nil},
		"known when it was asked":   {[]Request{lease(9, 10, 11, 0, 5), lease(1, 8, 9, 0, 6)}, []Pair{{1, 0}}},
		"known at that time":        {[]Request{lease(8, 10, 11, 0, 5), lease(1, 8, 9, 0, 6)}, nil},
		"the highest counts":        {[]Request{lease(0, 1, 3, 0, 9), lease(0, 2, 4, 0, 7), lease(5, 6, 7, 0, 8)}, []Pair{{0, 2}}},
		"twice, one after another":  {[]Request{lease(0, 1, 2, 0, 5), lease(2, 3, 4, 0, 5)}, []Pair{{0, 1}}},
		"twice at once":             {[]Request{lease(0, 5, 6, 0, 5), lease(1, 4, 6, 0, 5)}, []Pair{{0, 1}}},
		"not granted has no token":  {[]Request{{Asked: 0, Start: 0, Token: 9}, lease(2, 3, 4, 0, 5), {Asked: 3}}, nil},
		"and one without an answer": {[]Request{lease(0, 1, 2, 0, 5), {Asked: 9, Token: 5}}, nil},
	} {
		if got := Tokens(tt.requests); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestBrokenNamesEachPromise(t *testing.T) {
	t.Parallel()
	fine := []Request{lease(0, 1, 5, 0, 1), lease(1, 2, 5, 1, 2)}
	if got := Broken(fine, 2); len(got) > 0 {
		t.Errorf("nothing is wrong: %q", got)
	}
	for want, requests := range map[string][]Request{
		"3 permits were believed in at once for 2ns, the limit is 2": append(slices.Clone(fine), lease(2, 3, 8, 2, 3)),
		"slot 1 was believed in before its last holder ended":        {fine[1], lease(2, 3, 8, 1, 3)},
		"token 2 was asked for when 2 had been granted":              {fine[1], lease(6, 7, 8, 0, 2)},
	} {
		if got := Broken(requests, 2); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
