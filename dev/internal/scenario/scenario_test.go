package scenario

import (
	"strings"
	"testing"
	"time"
)

func TestContentionSaysWhatIsPossible(t *testing.T) {
	t.Parallel()
	for hold, most := range map[time.Duration]string{time.Millisecond: "5000", 10 * time.Millisecond: "500"} {
		if s := Contended(8, hold); !strings.Contains(s.About, "in 8 clients") || !strings.HasSuffix(s.About, " more than "+most+" permits per second.") {
			t.Errorf("%v: %s", hold, s.About)
		}
	}
}
