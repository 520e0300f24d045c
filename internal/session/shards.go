package session

import (
	"maps"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

// linger is how long the subscription of a semaphore without claims is kept.
const linger = 5 * time.Second

// shards are the subscriptions in a cluster, one for each semaphore, because a message
// reaches only the node that has its slot. The session's mutex guards it.
type shards struct {
	unused map[string]time.Time // key → since when
	timer  *time.Timer
}

// use subscribes to the semaphore with this key, or notes that it has no claims any more.
func (h *shards) use(s *Session, key protocol.Key, live bool) {
	if h.unused == nil {
		h.unused = map[string]time.Time{}
	}
	if live {
		if _, ok := h.unused[key.State]; ok {
			delete(h.unused, key.State)
		} else {
			s.box.Subscribe(s.store.Channel(key.State))
		}
		return
	}
	h.unused[key.State] = time.Now()
	if h.timer == nil {
		h.timer = time.AfterFunc(linger, func() { h.sweep(s) })
	}
}

// sweep ends subscriptions that were not used for a while.
func (h *shards) sweep(s *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	maps.DeleteFunc(h.unused, func(key string, since time.Time) bool {
		if time.Since(since) < linger {
			return false
		}
		s.box.Unsubscribe(s.store.Channel(key))
		return true
	})
	h.timer = nil
	if len(h.unused) > 0 {
		h.timer = time.AfterFunc(linger, func() { h.sweep(s) })
	}
}

func (h *shards) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}
