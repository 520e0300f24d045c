package berth

import (
	"testing"

	"github.com/berth-go/berth/internal/claim"
)

// TestLossesAreToldByTheirReason: LostReason is in the order of claim.Cause.
func TestLossesAreToldByTheirReason(t *testing.T) {
	t.Parallel()
	for cause, want := range map[claim.Cause]LostReason{
		claim.Untrusted: LostUntrusted, claim.Expired: LostExpired, claim.MaxHold: LostMaxHold, claim.Evicted: LostEvicted,
		claim.Vanished: LostVanished, claim.GivenBack: LostReleased, claim.AdoptedAway: LostAdopted, claim.Absent: LostUnknown,
	} {
		if got := publicLost(&claim.LostError{Cause: cause}).(*LostError).Reason; got != want {
			t.Errorf("cause %d: %v, want %v", cause, got, want)
		}
	}
	if len(lostReasons) != int(claim.Absent)+1 {
		t.Errorf("%d reasons for %d causes", len(lostReasons), claim.Absent+1)
	}
}
