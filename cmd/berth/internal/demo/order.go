package demo

import (
	"context"
	"sync"
	"time"

	"github.com/berth-go/berth"
)

// watchEvery is how often the queue is looked at.
const watchEvery = 50 * time.Millisecond

// order remembers who was seen waiting in front of whom.
type order struct {
	mu    sync.Mutex
	pairs map[[2]string]struct{} // leases: the first was in front of the second
	queue []berth.Waiter         // as last seen
}

func newOrder() *order { return &order{pairs: map[[2]string]struct{}{}} }

// watch looks at the queue until ctx ends.
func (o *order) watch(ctx context.Context, in *berth.Inspector) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if state, err := in.Show(ctx, semaphoreName); err == nil {
				o.see(state.Queue)
			}
		}
	}
}

func (o *order) see(queue []berth.Waiter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = queue
	for i, front := range queue {
		for _, behind := range queue[i+1:] {
			o.pairs[[2]string{front.ID, behind.ID}] = struct{}{}
		}
	}
}

// compare counts the pairs of which both were granted, and those of them that
// were granted in the other order, by their tokens.
func (o *order) compare(holds []*hold) (pairs, overtaken int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	tokens := map[string]int64{}
	for _, h := range holds {
		tokens[h.lease] = h.token
	}
	for pair := range o.pairs {
		front, ok1 := tokens[pair[0]]
		behind, ok2 := tokens[pair[1]]
		if !ok1 || !ok2 {
			continue // one was killed, or the demo ended
		}
		pairs++
		if behind < front {
			overtaken++
		}
	}
	return pairs, overtaken
}
