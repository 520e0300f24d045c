package fault_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestLateAcquireAfterVerdict: a copy of a request is still under way when the
// next copy is refused. It arrives when there is room, and nobody wants it.
func TestLateAcquireAfterVerdict(t *testing.T) {
	everywhere(t, func(l *lab) {
		holder := l.Hold(l.sem(l.healthy(), 1))
		impatient := func(o *redis.Options) { o.ReadTimeout = 500 * time.Millisecond }
		late := l.delay("A")
		released := l.net.Inject(redistest.Rule{Match: testenv.Carries("L"), Fault: redistest.Duplicate})
		l.WantErr(l.Try(l.sem(l.Client(l.connect(l.net, impatient)), 1)), berth.ErrBusy)
		testenv.Receive(l, "release, for the sake of its tombstone", released.Hit())
		l.Release(holder)
		late.arrives()
		l.NothingLeft(1, holder.Token())
	})
}
