package session

import (
	"context"
	"fmt"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// Renew renews the lease now. On success the holder may rely on it for a TTL.
func (c *Claim) Renew(ctx context.Context) error {
	done := make(chan error, 1)
	s := c.sem
	s.mu.Lock()
	if c.state != held {
		defer s.unlock()
		return c.over()
	}
	s.sendRenew(c, done)
	s.kick()
	s.unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return stopped(ctx, s.name)
	}
}

// over is the error of an operation that comes after the end of a lease.
func (c *Claim) over() error {
	if c.err != nil {
		return c.err
	}
	return ErrReleased
}

// sendRenew puts a renewal in line, for others that are due to travel with it.
func (s *Semaphore) sendRenew(c *Claim, done chan error) {
	c.due = clock.Never
	giveUp := clock.Never
	if done != nil {
		giveUp = clock.Now().Add(Patience)
	}
	s.line(&op{
		Op:    protocol.Op{Verb: protocol.Renew, ID: c.id, TTL: c.Terms.TTL, Replicas: c.Terms.MinReplicas},
		claim: c, done: done, giveUp: giveUp, answer: giveUp,
	})
}

// Release gives the lease back and waits for the answer, for at most Patience.
// It returns nil when the lease was held until now, a *Lost when it was not,
// ErrReleased when it was given back before, and a *protocol.Failure when Redis
// did not answer: then berth goes on trying, and the lease expires by itself.
func (c *Claim) Release() error {
	s := c.sem
	done := s.session.outcomes.Get().(chan error)
	defer s.session.outcomes.Put(done) // it is empty: an operation finishes once, and this one has, or has not begun
	s.mu.Lock()
	if c.state != held && c.state != lost {
		defer s.unlock()
		return c.over()
	}
	before := c.err
	s.leave(c, ErrReleased, done)
	s.depart(c)
	err := <-done
	if before != nil {
		return before
	}
	return err
}

// Detach renews the lease once more and then forgets it: from now on its holder
// is whoever adopts its id. On failure the lease is as it was.
func (c *Claim) Detach(ctx context.Context) error {
	if err := c.Renew(ctx); err != nil {
		return err
	}
	c.sem.mu.Lock()
	defer c.sem.unlock()
	if c.state != held {
		return c.over()
	}
	c.sem.end(c, ErrReleased)
	return nil
}

// Adopt makes the lease called id, detached by another process, this one's. It
// fails with a *Lost when there is no such lease any more.
func (s *Semaphore) Adopt(ctx context.Context, g Grant, terms *protocol.Terms, manual bool) (*Claim, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	c := &Claim{
		sem: s, Terms: terms, manual: manual, wake: make(chan struct{}, 1), due: clock.Never,
		id: g.ID, token: g.Token, slot: g.Slot, limit: g.Limit, state: adopting,
	}
	done := make(chan error, 1)
	if err := s.adopt(c, done); err != nil {
		return nil, err
	}
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
		return c, nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.unlock()
		s.end(c, ErrReleased)
		return nil, stopped(ctx, s.name)
	}
}

func (s *Semaphore) adopt(c *Claim, done chan error) error {
	s.mu.Lock()
	defer s.unlock()
	if s.claims[c.id] != nil {
		return fmt.Errorf("lease %s is held by this very process", c.id)
	}
	if err := s.admit(c); err != nil {
		return err
	}
	s.sendRenew(c, done)
	s.kick()
	return nil
}
