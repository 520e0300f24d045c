package claim

import (
	"errors"
	"testing"

	"github.com/berth-go/berth/internal/protocol"
)

// TestOnlyWhatMayHaveHappenedIsUnsure: of an error after which something may have happened, not even
// the kind is kept; of a request for a permit it is what to mend.
func TestOnlyWhatMayHaveHappenedIsUnsure(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from   func(*life)
		unsure bool
	}{
		"asked, sent":     {func(l *life) { asking(l) }, false},
		"queued":          {waiting, false},
		"confirming":      {confirming, false},
		"held":            {held, false},
		"adopting, sent":  {adopting, true},
		"detaching, sent": {detaching, true},
		"releasing, sent": {releasing, true},
	} {
		l := newLife()
		test.from(l)
		if got := errors.Is(l.Unsure(errRefused), protocol.ErrUnknown); got != test.unsure {
			t.Errorf("%s: unsure %v, want %v", name, got, test.unsure)
		}
	}
}
