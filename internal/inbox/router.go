package inbox

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// route gives each subscription that is due to the node that serves it.
func (in *Inbox) route() {
	for in.ctx.Err() == nil {
		due, next := in.due()
		for i, s := range due {
			if err := in.place(s); err != nil {
				in.unknown(due[i:], err)
				break
			}
		}
		if len(due) > 0 {
			continue // some may be unrouted again
		}
		select {
		case <-in.ctx.Done():
		case <-in.wake:
		case <-next:
		}
	}
}

// due returns the subscriptions to route now. If there are none it returns a timer for the
// next one, or nil.
func (in *Inbox) due() (due []*subscription, next <-chan time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	now, soonest := time.Now(), time.Duration(-1)
	for s := range in.unrouted {
		switch wait := s.due.Sub(now); {
		case wait <= 0:
			due = append(due, s)
		case soonest < 0 || wait < soonest:
			soonest = wait
		}
	}
	if len(due) == 0 && soonest >= 0 {
		next = time.After(soonest)
	}
	return due, next
}

// place gives s to its node. An error means that the client knows no node at all, so that it
// is useless to ask for another channel.
func (in *Inbox) place(s *subscription) error {
	addr, client, err := in.server(s.channel)
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if _, wanted := in.unrouted[s]; !wanted {
		return nil // unsubscribed meanwhile
	}
	delete(in.unrouted, s)
	n := in.nodes[addr]
	if n == nil {
		n = newNode(in, addr)
		in.nodes[addr] = n
		in.running.Go(n.run)
	}
	n.assign(s, client)
	return nil
}

// server returns the server of a channel and its address, "" outside a Cluster.
// It waits for the network only until the client knows the Cluster.
func (in *Inbox) server(channel string) (addr string, client redis.UniversalClient, err error) {
	if in.cluster == nil {
		return "", in.rdb, nil
	}
	node, err := in.cluster.MasterForKey(in.ctx, channel)
	if err != nil {
		return "", nil, err
	}
	return node.Options().Addr, node, nil
}

// unknown postpones subscriptions whose nodes cannot be found out.
func (in *Inbox) unknown(subs []*subscription, err error) {
	var wanted []*subscription
	in.mu.Lock()
	for _, s := range subs {
		if _, ok := in.unrouted[s]; ok {
			wanted = append(wanted, s)
			in.postpone(s, mostPause)
		}
	}
	news := in.trouble(unknownNodes, wanted...)
	in.mu.Unlock()
	if news {
		in.warn(unknownNodes, err)
	}
}
