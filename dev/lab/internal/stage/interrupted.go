package stage

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/berth-go/berth/dev/internal/algo"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/dev/lab/internal/wire"
	"github.com/berth-go/berth/internal/judge"
)

// runInterrupted cuts the connection of a holder during its releases.
func (s *stage) runInterrupted(ctx context.Context) (*Result, error) {
	if err := s.openWarm(ctx); err != nil {
		return nil, err
	}
	s.begin()
	ctx, cancel := lasting(ctx, s.env.Duration+crashTimeout)
	defer cancel()
	cut := &Cut{}
	for cut.Replies == 0 || s.now() < s.env.Duration {
		for _, how := range []wire.Cut{wire.Request, wire.Reply} {
			if err := s.interrupt(ctx, how, cut); err != nil {
				return nil, err
			}
		}
	}
	r := s.result()
	r.Cut = cut
	r.judged(s.requests, s.now())
	return r, nil
}

// interrupt cuts the connection during one release. Client 0 holds the permit, client 1
// waits for it.
func (s *stage) interrupt(ctx context.Context, how wire.Cut, cut *Cut) error {
	victim := s.clients[0]
	r := judge.Request{Granted: true, Asked: s.now()}
	poll := func() time.Duration { return s.env.Poll }
	p, err := obtain(ctx, victim, poll)
	if err != nil {
		return err
	}
	r.Start = s.now()
	next := s.await(ctx, 1, s.clients[1])
	before := p.Until()
	r.End = s.believed(p, func() { _ = measure.Pause(ctx, settle) })
	s.record(r)
	until := cmp.Or(p.Until(), before) // Until is zero if the lease is lost
	victim.tap.CutNext(how)
	held, err := release(ctx, p)
	if how == wire.Reply && err != nil {
		held, err = release(ctx, p)
		if err != nil {
			return err
		}
	}
	// On a machine that stood still for a TTL the lease was really lost.
	wrong := !held && (until.IsZero() || time.Now().Before(until))
	victim.tap.CutNext(wire.None)
	other := <-next
	if other.err != nil {
		return other.err
	}
	back := Millis(other.request.Start - r.End)
	if how == wire.Request {
		cut.Lost++
		cut.LostBackMS = max(cut.LostBackMS, back)
	} else {
		cut.Replies++
		cut.BackMS = max(cut.BackMS, back)
		if wrong {
			cut.Wrong++
		}
	}
	return s.over(ctx, other)
}

// believed holds p until do has returned, and returns when the holder stopped believing
// in it: at the latest when it knows by itself that the permit may be lost.
func (s *stage) believed(p *algo.Permit, do func()) time.Duration {
	until := p.Until()
	do()
	until = cmp.Or(p.Until(), until)
	now := s.now()
	if until.IsZero() {
		return now
	}
	return now - max(0, time.Since(until))
}

// waiter is a client that waited, with its permit or an error.
type waiter struct {
	permit  *algo.Permit
	request judge.Request
	err     error
}

// over ends the belief of a client that waited, and releases its permit.
func (s *stage) over(ctx context.Context, w waiter) error {
	w.request.End = s.now()
	s.record(w.request)
	_, err := release(ctx, w.permit)
	return err
}

// await lets a client wait for a permit. The channel always delivers a value.
func (s *stage) await(ctx context.Context, i int, c algo.Client) <-chan waiter {
	ch := make(chan waiter, 1)
	rng := s.chance(i)
	go func() {
		w := waiter{request: judge.Request{Client: i, Asked: s.now()}}
		w.permit, w.err = obtain(ctx, c, func() time.Duration { return jitter(rng, s.env.Poll) })
		if errors.Is(w.err, errOver) {
			w.err = errors.New("a waiting client got no permit in time")
		}
		w.request.Granted, w.request.Start = w.err == nil, s.now()
		ch <- w
	}()
	return ch
}
