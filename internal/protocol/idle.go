package protocol

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// mostTaking bounds how long CheckIdle takes.
	mostTaking = 50 * time.Millisecond
	// patience is how long a connection may take to answer. Nobody waits for that.
	patience = 15 * time.Second
)

// CheckIdle asks the idle connections of the client's pool for an answer, those to the server that
// has k. It returns when they are out of the pool, or soon after, so that the next call makes a new
// connection. Those that answer are idle again, and heard is called; go-redis closes the others.
//
// It is for connections that a NAT or a load balancer has forgotten: nobody is told, and each would
// swallow a call, and cost it its time-out.
func (s *Store) CheckIdle(ctx context.Context, k Key, heard func()) {
	taken := make(chan struct{})
	go s.askIdle(ctx, k, heard, taken)
	select {
	case <-taken:
	case <-time.After(mostTaking):
	}
}

// askIdle sends a PING on each idle connection, closes taken when all are sent, and returns when
// all have their outcomes.
func (s *Store) askIdle(ctx context.Context, k Key, heard func(), taken chan<- struct{}) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out, done sync.WaitGroup
	if rdb := s.serverOf(ctx, k); rdb != nil {
		rdb = rdb.WithTimeout(patience) // it has the same pool
		for range rdb.PoolStats().IdleConns {
			out.Add(1)
			sent := sentMark(sync.OnceFunc(out.Done))
			done.Go(func() {
				if rdb.Process(ctx, newOnce(ctx, []any{"ping", sent})) == nil {
					heard()
				}
				sent() // if it got no connection
			})
		}
	}
	out.Wait()
	close(taken)
	done.Wait()
}

// serverOf returns the client of the server that has k, or nil if that is not known.
func (s *Store) serverOf(ctx context.Context, k Key) *redis.Client {
	switch rdb := s.rdb.(type) {
	case *redis.Client:
		return rdb
	case *redis.ClusterClient:
		node, _ := rdb.MasterForKey(ctx, k.State)
		return node
	}
	return nil
}

// UsedUp reports whether calls wait for a connection of the client's pool, and there is none.
func (s *Store) UsedUp() bool {
	rdb, ok := s.rdb.(*redis.Client)
	if !ok {
		return false
	}
	pool := rdb.PoolStats()
	return pool.PendingRequests > 0 && pool.IdleConns == 0 && int(pool.TotalConns) >= rdb.Options().PoolSize
}
