package berthweb

import (
	"context"
	"sync"
	"time"

	"github.com/berth-go/berth/berthadmin"
)

// How long answers are used, and how long they may take. The doctor takes half a second for
// each master of a cluster.
const (
	auditFor  = 10 * time.Second
	doctorFor = 30 * time.Second
	errorFor  = time.Second // whatever was asked: Redis may be back

	mostAsk     = 5 * time.Second
	mostExamine = 25 * time.Second // below writeTimeout
)

// cached is an answer of Redis that is asked for at most once in a while.
type cached[T any] struct {
	mu    sync.Mutex
	at    time.Time
	value T
	err   error
}

// get returns the answer, at most so old, and asks for most at the longest. Concurrent callers
// wait for the same answer.
func (c *cached[T]) get(ctx context.Context, old, most time.Duration, ask func(context.Context) (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		old = errorFor
	}
	if c.at.IsZero() || time.Since(c.at) >= old {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), most) // it is for others, too
		defer cancel()
		c.value, c.err = ask(ctx)
		c.at = time.Now()
	}
	return c.value, c.err
}

func (c *cached[T]) asOf() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// forget makes the next get ask again.
func (c *cached[T]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
}

// readAudit reads the whole audit, whose length is bounded.
func (s *site) readAudit(ctx context.Context) ([]berthadmin.Audited, error) {
	all := []berthadmin.Audited{}
	for e, err := range s.in.Audit(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}
