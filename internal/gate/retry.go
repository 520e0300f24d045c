package gate

import (
	"sync"
	"time"

	"github.com/berth-go/berth"
)

// The bounds of Retry-After: with less, clients come back too early; with more, they
// wait although the load has fallen.
const (
	leastRetry = time.Second
	mostRetry  = time.Minute
)

// standing is what a refused call knows of the queue.
type standing struct {
	berth.Status
	ahead int           // waiters in front; -1: not known
	next  time.Duration // until a lease runs out unless it is renewed; 0: not known
	free  bool          // but for the rate, and a pause that ends, the call would be let in
}

// rateRoom is when the rate will have room, at the least: not before RetryAfter, and not
// before those ahead have been granted, at a cost of 1 each.
func (s standing) rateRoom() time.Duration {
	ahead := max(s.ahead, 0)
	switch {
	case s.Rate == 0: // RetryAfter is of a pause
		return s.RetryAfter
	case s.Burst > 0:
		free := 0 // of the bucket, for those ahead
		if s.RetryAfter == 0 {
			free = max(s.Burst-s.Spent-1, 0)
		}
		return s.RetryAfter + time.Duration(max(ahead-free, 0))*s.Window/time.Duration(s.Rate)
	}
	windows := (min(s.Spent, s.Rate) + ahead) / s.Rate // that are full until then; more than the rate leaves as fast
	return max(s.RetryAfter+time.Duration(ahead/s.Rate)*s.Window, time.Duration(windows-1)*s.Window)
}

// retryAfter estimates when a permit may be free: the waiters ahead are served first,
// limit of them at a time, each round for as long as permits were held lately. A lease
// that expires ends its round earlier. The result is in whole seconds, as in the
// header. It is not before the rate has room.
func (s standing) retryAfter(hold time.Duration) time.Duration {
	return max(s.holdRoom(hold), seconds(s.rateRoom()))
}

// seconds rounds d up to whole seconds.
func seconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// holdRoom is when those who hold permits may have given them back.
func (s standing) holdRoom(hold time.Duration) time.Duration {
	if s.Limit == berth.NoLimit {
		return leastRetry
	}
	round := hold
	if s.next > 0 && (round == 0 || s.next < round) {
		round = s.next
	}
	limit := max(s.Limit, 1)
	rounds := (max(s.ahead, 0) + limit) / limit
	if round > mostRetry/time.Duration(rounds) {
		return mostRetry
	}
	return max(seconds(time.Duration(rounds)*round), leastRetry)
}

// meter is a moving average of how long permits are held.
type meter struct {
	mu   sync.Mutex
	avg  time.Duration // guarded by mu
	some bool          // guarded by mu
}

func (m *meter) add(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.some {
		m.avg, m.some = d, true
		return
	}
	m.avg += (d - m.avg) / 8
}

// mean returns 0 when nothing is known.
func (m *meter) mean() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.avg
}
