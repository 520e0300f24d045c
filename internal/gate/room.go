package gate

import "sync"

// room is where calls of this process wait, as many as MaxWaiting says. Each tenant has its part of it,
// and calls without one together have another: so a tenant with many calls leaves room for the others,
// as in a bounded queue of Redis. Tenants that come one after the other fill more than the room, but at
// most twice as much: who names tenants may be a stranger, who is not to have all memory.
type room struct {
	most int // 0: no bound

	mu      sync.Mutex
	waiting map[string]int // guarded by mu; calls that may wait, by tenant
	all     int            // guarded by mu; their sum
	trying  int            // guarded by mu; calls beyond those
}

// entry is what a room lets a call do.
type entry int

const (
	turnedAway entry = iota // nothing
	mayTry                  // take a permit that is free
	mayWait                 // wait for one
)

// enter lets a call for a tenant in. Unless it is turned away it must leave.
func (m *room) enter(tenant string) entry {
	if m.most == 0 {
		return mayWait
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	own, tenants := m.waiting[tenant], len(m.waiting)
	if own == 0 {
		tenants++
	}
	switch {
	case (own+1)*tenants <= m.most && m.all < 2*m.most:
		if m.waiting == nil {
			m.waiting = map[string]int{}
		}
		m.waiting[tenant]++
		m.all++
		return mayWait
	case m.trying < tries(m.most):
		m.trying++
		return mayTry
	}
	return turnedAway
}

// leave ends what enter has begun.
func (m *room) leave(tenant string, e entry) {
	if m.most == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e == mayTry {
		m.trying--
		return
	}
	m.all--
	if m.waiting[tenant]--; m.waiting[tenant] == 0 {
		delete(m.waiting, tenant)
	}
}

// tries is how many calls at once may ask for a permit that is free while maxWaiting
// calls wait: so that those who wait for one key do not lock out the others.
func tries(maxWaiting int) int { return (maxWaiting + 9) / 10 }
