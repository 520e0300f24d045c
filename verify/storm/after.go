package storm

import (
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/verify/history"
	"github.com/berth-go/berth/verify/judge"
	"github.com/redis/go-redis/v9"
)

// recovered checks what must hold when all clients have gone: every permit can
// be had again within the longest TTL, no token is below an earlier one, and
// nothing is left behind (L5).
func (s *storm) recovered(v *judge.Verdict) {
	fail := func(promise, name, text string) {
		v.Violations = append(v.Violations, judge.Violation{Promise: promise, Name: name, Text: text, At: history.Now()})
	}
	if s.shim != nil {
		s.shim.set(s, max(s.shim.by, 0)) // what waits for a clock that was stepped back need not be waited for
	}
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.server.Socket()})
	defer rdb.Close()
	client, err := berth.New(rdb, berth.WithPrefix(s.prefix))
	if err != nil {
		s.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, seat := range seats {
		sem, err := client.Semaphore(seat.Name, seat.Limit, berth.TTL(seat.TTL))
		if err != nil {
			s.Fatal(err)
		}
		wait, cancel := context.WithTimeout(ctx, 2*seat.TTL+slack)
		lease, err := sem.Acquire(wait, berth.Weight(seat.Limit))
		cancel()
		if err != nil {
			fail("recovery", seat.Name, "the whole limit cannot be had after everybody has gone: "+err.Error())
			continue
		}
		_ = lease.Release()
	}
	if left := s.leftovers(ctx, client, rdb); left != "" {
		fail("L5", left, "it is left over, and carries no TTL")
	}
}

// leftovers lists all semaphores, which reaps what crashed holders left, and
// then looks for keys that would stay for ever. It returns the first.
func (s *storm) leftovers(ctx context.Context, client *berth.Client, rdb *redis.Client) string {
	for {
		if _, err := client.Inspector().List(ctx); err != nil && !errors.Is(err, berth.ErrCorrupt) {
			s.Errorf("list: %v", err)
		}
		keys, err := rdb.Keys(ctx, s.prefix+":*").Result()
		if err != nil {
			s.Errorf("keys: %v", err)
			return ""
		}
		left := ""
		for _, k := range keys {
			if ttl, err := rdb.PTTL(ctx, k).Result(); err == nil && ttl == -1 {
				left = k
			}
		}
		if left == "" || ctx.Err() != nil {
			return left
		}
		pause(100 * time.Millisecond)
	}
}
