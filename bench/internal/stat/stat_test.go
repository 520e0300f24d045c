package stat

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestStepsDoNotInterpolate(t *testing.T) {
	t.Parallel()
	if got := Steps([]float64{1, 2, 3, 4}, 2); !slices.Equal(got, []float64{1, 2, 4}) {
		t.Errorf("Steps = %v", got)
	}
}

func TestRatiosKeepToTheRound(t *testing.T) {
	t.Parallel()
	if got := Ratios([]float64{2, 9, 5, 7}, []float64{1, 3, 0}); !slices.Equal(got, []float64{2, 3}) {
		t.Errorf("Ratios = %v, want [2 3]", got)
	}
}

func TestJainGoesFromOneForAllToOneForOne(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		shares []int
		want   float64
	}{
		{[]int{5, 5, 5, 5}, 1},
		{[]int{8, 0, 0, 0}, 0.25},
		{[]int{0, 0}, 1},
		{[]int{1, 3}, 0.8},
	} {
		if got := Jain(tt.shares); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("Jain(%v) = %v, want %v", tt.shares, got, tt.want)
		}
	}
}

const ms = time.Millisecond

func TestMostHeldCountsOverlapsOnly(t *testing.T) {
	t.Parallel()
	beliefs := []Belief{
		{0, 0, 10 * ms},
		{0, 10 * ms, 20 * ms}, // takes over at that very moment
		{0, 5 * ms, 15 * ms},
		{0, 12 * ms, 12 * ms}, // held for no time
	}
	if got := MostHeld(beliefs); got != 2 {
		t.Errorf("most held: %d, want 2", got)
	}
}

func TestOvertakingNeedsMoreThanTheSlack(t *testing.T) {
	t.Parallel()
	inLine := []Belief{{0, 10 * ms, 11 * ms}, {20 * ms, 30 * ms, 31 * ms}}
	near := []Belief{{0, 22 * ms, 23 * ms}, {3 * ms, 20 * ms, 21 * ms}}
	passed := []Belief{{0, 50 * ms, 51 * ms}, {10 * ms, 20 * ms, 21 * ms}, {60 * ms, 61 * ms, 62 * ms}}
	for _, tt := range []struct {
		name    string
		beliefs []Belief
		want    int
	}{{"none", nil, 0}, {"in line", inLine, 0}, {"within the slack", near, 0}, {"passed", passed, 1}} {
		if got := Overtaken(tt.beliefs, 5*ms); got != tt.want {
			t.Errorf("%s: %d overtaken, want %d", tt.name, got, tt.want)
		}
	}
}
