package berthpool

// Owed returns how many of the pool's leases go to waiters elsewhere when their loans end.
func (p *Pool) Owed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.elsewhere.owed
}
