package session

import (
	"maps"
	"sync"
	"time"
)

// linger is how long the subscription of a semaphore without claims is kept.
const linger = 5 * time.Second

// shards are the subscriptions in a cluster, one for each semaphore, because a message
// reaches only the node that has its slot.
type shards struct {
	subscribe, unsubscribe func(key string) // called with mu held

	mu      sync.Mutex
	unused  map[string]time.Time // guarded by mu; key → since when
	timer   *time.Timer          // guarded by mu
	stopped bool                 // guarded by mu
}

// use subscribes to the semaphore with this key, or notes that it has no claims any more.
func (h *shards) use(key string, live bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if live {
		if _, ok := h.unused[key]; ok {
			delete(h.unused, key)
		} else {
			h.subscribe(key)
		}
		return
	}
	if h.unused == nil {
		h.unused = map[string]time.Time{}
	}
	h.unused[key] = time.Now()
	h.sweepLater()
}

// sweepLater makes sure that there is another sweep. h.mu is held.
func (h *shards) sweepLater() {
	if h.timer == nil && !h.stopped {
		h.timer = time.AfterFunc(linger, h.sweep)
	}
}

// sweep ends subscriptions that were not used for a while.
func (h *shards) sweep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	maps.DeleteFunc(h.unused, func(key string, since time.Time) bool {
		if time.Since(since) < linger {
			return false
		}
		h.unsubscribe(key)
		return true
	})
	h.timer = nil
	if len(h.unused) > 0 {
		h.sweepLater()
	}
}

// stop ends the sweeps.
func (h *shards) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	if h.timer != nil {
		h.timer.Stop()
	}
}
