package storm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/dev/verify/promises"
	"github.com/berth-go/berth/dev/verify/worker"
)

// recovered checks what must hold after all clients have ended: every permit is
// granted again within the longest TTL, no token is below an earlier one, and nothing
// is left behind (L5).
func (s *storm) recovered(v *promises.Verdict) {
	fail := func(promise, name, text string) {
		v.Violations = append(v.Violations, promises.Violation{Promise: promise, Name: name, Text: text, At: history.Now()})
	}
	if s.shim != nil {
		s.shim.set(s, max(s.shim.by, 0)) // what waits for a clock that was stepped back need not be waited for
	}
	rdb := s.server.Client(s)
	client, err := berth.New(rdb, berth.Prefix(s.prefix))
	s.check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	seats := s.seatsLeft(ctx, rdb)
	errs := make([]error, len(seats))
	var longest time.Duration // they heal side by side
	for i, seat := range seats {
		errs[i] = s.whole(ctx, client, seat)
		if d := heals(errs[i]); d > 0 {
			v.Healed++
			longest = max(longest, d)
		}
	}
	if v.Healed > 0 {
		s.skip(longest + time.Millisecond)
	}
	for i, seat := range seats {
		if heals(errs[i]) > 0 {
			errs[i] = s.whole(ctx, client, seat)
		}
		if errs[i] != nil {
			fail("recovery", seat.Name, "the whole limit cannot be had after everybody has gone: "+errs[i].Error())
		}
	}
	if err := s.leftovers(rdb); err != nil {
		fail("L5", "all", err.Error())
	}
}

// seatsLeft returns the seats to look at. A linear or timed one stands for many semaphores, each
// used for a while; those that still have a hash are looked at.
func (s *storm) seatsLeft(ctx context.Context, rdb *redis.Client) (seats []worker.Seat) {
	for _, seat := range allSeats {
		if seat.Mode != worker.Linear && seat.Mode != worker.Timed {
			seats = append(seats, seat)
			continue
		}
		keys, err := rdb.Keys(ctx, s.prefix+":{"+seat.Name+".*}").Result()
		s.check(err)
		for _, key := range keys {
			seat.Name = strings.TrimSuffix(strings.TrimPrefix(key, s.prefix+":{"), "}")
			seats = append(seats, seat)
		}
	}
	return seats
}

// heals returns the time after which a semaphore that lost one of its keys heals, or 0
// if err is about something else.
func heals(err error) time.Duration {
	if lost, ok := errors.AsType[*berth.CorruptError](err); ok {
		return lost.Heals
	}
	return 0
}

// whole takes all permits of a semaphore and gives them back.
func (s *storm) whole(ctx context.Context, client *berth.Client, seat worker.Seat) error {
	sem, err := client.Semaphore(seat.Name, seat.Limit, berth.TTL(seat.TTL))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*seat.TTL+10*slack) // who leaks permits leaks them for good
	defer cancel()
	for {
		lease, err := sem.Acquire(ctx, berth.Weight(seat.Limit))
		if err == nil {
			err = lease.Release()
		}
		// A machine that stands still for a TTL loses the lease before its release, and one whose
		// server does has no answer.
		if ctx.Err() != nil || !errors.Is(err, berth.ErrLost) && !errors.Is(err, berth.ErrUnreachable) {
			return err
		}
	}
}

// leftovers lists all semaphores, which removes what crashed holders left, until no
// key without a TTL remains.
func (s *storm) leftovers(rdb *redis.Client) error {
	in, err := berthadmin.New(rdb, berthadmin.Options{Prefix: s.prefix})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	end := time.Now().Add(30 * time.Second)
	for {
		var longest time.Duration // they heal side by side
		unlisted := false
		for _, err := range in.List(ctx) {
			if d := heals(err); d > 0 {
				longest = max(longest, d)
			} else if errors.Is(err, berth.ErrUnreachable) && time.Now().Before(end) {
				unlisted = true // the machine is busy
			} else if err != nil {
				return err
			}
		}
		left := ""
		for _, k := range rdb.Keys(ctx, s.prefix+":*").Val() {
			if rdb.PTTL(ctx, k).Val() == -1 {
				left = k
			}
		}
		switch {
		case left == "" && !unlisted:
			return nil
		case longest > 0:
			s.skip(longest + time.Millisecond)
			if healed := time.Now().Add(slack); healed.After(end) {
				end = healed
			}
		case time.Now().After(end):
			return fmt.Errorf("%s is left over, and carries no TTL", left)
		default:
			pause(100 * time.Millisecond)
		}
	}
}
