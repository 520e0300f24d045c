package berthweb

import (
	"context"
	"sync"
	"time"

	"github.com/berth-go/berth"
)

// How long answers are taken for the present ones, and how long they may take.
const (
	auditFor  = 10 * time.Second
	doctorFor = 30 * time.Second
	mostAsk   = 5 * time.Second
)

// cached is an answer of Redis that is asked for once in a while, however many look.
type cached[T any] struct {
	mu    sync.Mutex
	at    time.Time
	value T
	err   error
}

// get returns the answer, which may be so old. Who comes while it is asked for waits for it.
func (c *cached[T]) get(ctx context.Context, old time.Duration, ask func(context.Context) (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() || time.Since(c.at) >= old {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mostAsk) // it is for others, too
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

// forget has the answer asked for again.
func (c *cached[T]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
}

// readAudit reads the whole audit, which is bounded by what Redis keeps of it.
func (s *site) readAudit(ctx context.Context) ([]berth.Audited, error) {
	all := []berth.Audited{}
	for e, err := range s.in.Audit(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}
