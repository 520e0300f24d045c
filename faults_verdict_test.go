package berth_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/redistest"
)

// TestLateAcquireAfterVerdict: a copy of a request is still under way when the
// next copy is refused. It arrives when there is room, and nobody wants it.
func TestLateAcquireAfterVerdict(t *testing.T) {
	everywhere(t, func(l *lab) {
		holder := l.acquire(l.sem(l.spared(), 1))
		impatient := func(o *redis.Options) { o.ReadTimeout = 50 * time.Millisecond }
		late := l.hold("A")
		released := l.net.Inject(redistest.Rule{Match: carries("L"), Fault: redistest.Duplicate})
		if _, err := l.sem(l.berth(l.redis(l.net, impatient)), 1).TryAcquire(l.bounded()); !errors.Is(err, berth.ErrBusy) {
			l.Fatalf("TryAcquire of a full semaphore: %v", err)
		}
		receive(l, "release, for the sake of its tombstone", released.Hit())
		l.release(holder)
		late.arrives()
		l.idle(1, holder.Token())
	})
}
