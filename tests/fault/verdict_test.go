package fault_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
	"github.com/berth-go/berth/internal/testenv"
)

// TestLateAcquireAfterVerdict: a copy of a request is still under way when the
// next copy is refused. It arrives when there is room, and nobody wants it.
func TestLateAcquireAfterVerdict(t *testing.T) {
	everywhere(t, func(l *lab) {
		holder := l.Hold(l.sem(l.healthy(), 1))
		impatient := func(o *redis.Options) { o.ReadTimeout = 50 * time.Millisecond }
		late := l.delay("A")
		released := l.net.Inject(redistest.Rule{Match: testenv.Carries("L"), Fault: redistest.Duplicate})
		if _, err := l.sem(l.Client(l.connect(l.net, impatient)), 1).TryAcquire(l.Ctx); !errors.Is(err, berth.ErrBusy) {
			l.Fatalf("TryAcquire of a full semaphore: %v", err)
		}
		testenv.Receive(l, "release, for the sake of its tombstone", released.Hit())
		l.Release(holder)
		late.arrives()
		l.NothingLeft(1, holder.Token())
	})
}
