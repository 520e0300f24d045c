package trial

import (
	"math"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/judge"
)

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
		if got := jain(tt.shares); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("jain(%v) = %v, want %v", tt.shares, got, tt.want)
		}
	}
}

func TestOvertakingNeedsMoreThanTheSlack(t *testing.T) {
	t.Parallel()
	had := func(asked, start int) judge.Request {
		at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
		return judge.Request{Granted: true, Asked: at(asked), Start: at(start), End: at(start + 1)}
	}
	for name, tt := range map[string]struct {
		beliefs []judge.Request
		want    int
	}{
		"none":             {nil, 0},
		"in line":          {[]judge.Request{had(0, 10), had(20, 30)}, 0},
		"within the slack": {[]judge.Request{had(0, 22), had(3, 20)}, 0},
		"passed":           {[]judge.Request{had(0, 50), had(10, 20), had(60, 61)}, 1},
	} {
		if got := overtaken(tt.beliefs); got != tt.want {
			t.Errorf("%s: %d overtaken, want %d", name, got, tt.want)
		}
	}
}

func TestTrialsAreDescribed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, x := range All() {
		if seen[x.Key] || x.Key == "" || x.Title == "" || len(x.About) < 40 || len(x.Cases(Full())) == 0 {
			t.Errorf("trial of %+v", x.Scenario)
		}
		seen[x.Key] = true
	}
}
