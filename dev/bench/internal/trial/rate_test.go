package trial

import (
	"testing"
	"time"

	"github.com/berth-go/berth/dev/bench/internal/peer"
)

// grantsAt are grants at exact times in ms.
func grantsAt(ms ...int) (list []peer.Grant) {
	for _, n := range ms {
		at := time.Duration(n) * time.Millisecond
		list = append(list, peer.Grant{From: at, To: at})
	}
	return list
}

func TestBusiestWindowIsFound(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct {
		grants []peer.Grant
		want   int
	}{
		"none":                     {nil, 0},
		"a window apart":           {grantsAt(0, 1000, 2000), 1},
		"almost a window apart":    {grantsAt(0, 999, 2000), 2},
		"not in order":             {grantsAt(5000, 0, 5100, 4999), 3},
		"perhaps in the same one":  {append(grantsAt(0), peer.Grant{From: 900 * time.Millisecond, To: 1100 * time.Millisecond}), 1},
		"at the end of a long one": {append(grantsAt(0, 1), peer.Grant{From: 900 * time.Millisecond, To: 1000 * time.Millisecond}), 2},
	} {
		if got := busiest(tt.grants, time.Second); got != tt.want {
			t.Errorf("%s: %d, want %d", what, got, tt.want)
		}
	}
}

func TestSteadyRateLeavesTheFirstBurstOut(t *testing.T) {
	t.Parallel()
	if got := steady(grantsAt(7000, 7001, 7002, 7499, 7500, 8000, 9499, 9500), 2*time.Second); got != 1.5 {
		t.Errorf("%v grants a second, want 1.5", got)
	}
}
