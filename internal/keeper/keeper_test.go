package keeper

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-go/berth/internal/clock"
)

// TestFirstIsTheEarliest: whatever is set, moved and removed, and in whatever
// order, First is the earliest of what is left.
func TestFirstIsTheEarliest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var d Deadlines[int]
		entries := make([]Entry[int], 8)
		set := make([]clock.Instant, len(entries))
		for i := range entries {
			entries[i].Of, set[i] = i, clock.Never
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(entries)-1).Draw(t, "which")
			set[i] = rapid.SampledFrom([]clock.Instant{clock.Never, 1, 2, 3, 4, 5, 6}).Draw(t, "at")
			d.Set(&entries[i], set[i])
			first, at := d.First()
			if want := slices.Min(set); at != want || at != clock.Never && set[first] != at {
				t.Fatalf("first is %d at %d, want one at %d of %v", first, at, want, set)
			}
		}
	})
}
