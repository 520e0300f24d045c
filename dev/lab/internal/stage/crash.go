package stage

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/judge"
)

// crashTimeout bounds the wait for a crashed holder's permit.
const crashTimeout = 2 * time.Minute

// runCrash kills as many holders as there are permits, while as many clients wait for them, and one
// more process in the middle of its acquire, while the last client comes.
func (s *stage) runCrash(ctx context.Context) (*Result, error) {
	if err := s.openWarm(ctx); err != nil {
		return nil, err
	}
	s.begin()
	ctx, cancel := lasting(ctx, crashTimeout)
	defer cancel()
	waiters, killed, err := s.killHolders(ctx)
	if err != nil {
		return nil, err
	}
	c := &Crash{}
	soon := earliest(s.requests) + s.TTL*3/4
	for _, w := range waiters {
		c.BackMS = append(c.BackMS, Millis(w.request.Start-killed))
		if w.request.Start < soon {
			c.Early++
		}
		if err := s.over(ctx, w); err != nil {
			return nil, err
		}
	}
	slices.Sort(c.BackMS)
	if c.StallMS, err = s.killAcquirer(ctx); err != nil {
		return nil, err
	}
	r := s.result()
	r.Crash = c
	r.judged(s.requests, s.now())
	return r, nil
}

// earliest returns when the first of the permits was requested. No time-out began earlier,
// however late the grants were heard of.
func earliest(requests []judge.Request) time.Duration {
	first := requests[0].Asked
	for _, r := range requests {
		first = min(first, r.Asked)
	}
	return first
}

// killHolders lets processes hold all permits and clients wait for them, and kills the
// processes. It returns when the clients have the permits.
func (s *stage) killHolders(ctx context.Context) (got []waiter, killed time.Duration, err error) {
	var holders []*child.Process
	defer func() {
		for _, h := range holders {
			h.Kill()
		}
	}()
	for range s.Limit {
		h, err := s.hire(time.Minute, 0)
		if err != nil {
			return nil, 0, err
		}
		holders = append(holders, h)
	}
	requests := make([]judge.Request, s.Limit)
	for i, h := range holders {
		at, err := next(h)
		if err != nil {
			return nil, 0, err
		}
		// The processes are numbered after the clients.
		requests[i] = judge.Request{Client: len(s.clients) + i, Granted: true, Asked: at.Asked - s.start, Start: at.At - s.start}
	}
	var waiting []<-chan waiter
	for i := range s.Limit {
		waiting = append(waiting, s.await(ctx, i, s.clients[i]))
	}
	_ = measure.Pause(ctx, settle)
	killed = s.now()
	for i, h := range holders {
		requests[i].End = killed // a killed process believes nothing
		if end, ok := told(h); ok {
			requests[i].End = min(killed, end-s.start)
		}
		h.Kill()
		s.record(requests[i])
	}
	for _, ch := range waiting {
		w := <-ch
		if w.err != nil {
			return nil, 0, w.err
		}
		got = append(got, w)
	}
	return got, killed, nil
}

// told returns since when a holder has known that its permit is lost: on a slow machine it may
// run out before the holder is killed.
func told(holder *child.Process) (time.Duration, bool) {
	select {
	case raw := <-holder.Said:
		var r report
		if json.Unmarshal(raw, &r) != nil || !r.Told {
			return 0, false
		}
		return cmp.Or(r.Until, r.At), true
	default:
		return 0, false
	}
}

// killAcquirer kills a process in the middle of its acquire and returns the time until
// the next client has a permit, although some are free.
func (s *stage) killAcquirer(ctx context.Context) (float64, error) {
	for {
		died, w, err := s.awaitAfterDeath(ctx)
		if err != nil {
			return 0, err
		}
		// If the client asks too late, a lock may have timed out already, and the result means
		// nothing.
		if w.request.Asked-died < s.TTL/4 {
			return Millis(w.request.Start - died), s.over(ctx, w)
		}
		if err := s.over(ctx, w); err != nil {
			return 0, err
		}
	}
}

func (s *stage) awaitAfterDeath(ctx context.Context) (died time.Duration, w waiter, err error) {
	h, err := s.hire(time.Minute, s.alg.Replies)
	if err != nil {
		return 0, w, err
	}
	defer h.Kill()
	last, err := next(h)
	if err != nil {
		return 0, w, err
	}
	// It kills itself right after its report. Waiting for its end could take too long.
	w = <-s.await(ctx, s.Limit, s.clients[s.Limit])
	return last.At - s.start, w, w.err
}

const (
	pauseAfter = 60 * time.Millisecond  // of work
	pauseMore  = 50 * time.Millisecond  // after the other client has the permit
	pauseWork  = 190 * time.Millisecond // after the pause
)

// runPause stops a holder for longer than its time-out.
func (s *stage) runPause(ctx context.Context) (*Result, error) {
	if err := s.openWarm(ctx); err != nil {
		return nil, err
	}
	s.begin()
	ctx, cancel := lasting(ctx, crashTimeout)
	defer cancel()
	h, err := s.hire(pauseWork, 0)
	if err != nil {
		return nil, err
	}
	defer h.Kill()
	first, err := next(h)
	if err != nil {
		return nil, err
	}
	other := s.await(ctx, 0, s.clients[0])
	_ = measure.Pause(ctx, pauseAfter)
	if err := h.Cmd.Process.Signal(unix.SIGSTOP); err != nil {
		return nil, err
	}
	stopped := judge.Span{From: s.now()}
	w := <-other
	if w.err != nil {
		return nil, w.err
	}
	_ = measure.Pause(ctx, pauseMore)
	if err := h.Tell(struct{}{}); err != nil {
		return nil, err
	}
	stopped.To = s.now()
	if err := h.Cmd.Process.Signal(unix.SIGCONT); err != nil {
		return nil, err
	}
	last, err := next(h)
	if err != nil {
		return nil, err
	}
	if err := s.over(ctx, w); err != nil {
		return nil, err
	}
	return s.pauseResult(first, last, stopped, w.request), nil
}

func (s *stage) pauseResult(first, last report, stopped judge.Span, other judge.Request) *Result {
	holder := judge.Request{
		Client: 1, Granted: true, Stopped: stopped,
		Asked: first.At - s.start, Start: first.At - s.start, End: last.At - s.start,
	}
	if last.Until != 0 {
		// It knew in advance until when it could trust the permit.
		holder.End = min(holder.End, last.Until-s.start)
	}
	s.record(holder)
	r := s.result()
	r.Clients = 2
	r.Pause = &Pause{
		StoppedMS: Millis(stopped.Length()), Told: last.Told, Reported: last.Held,
		AwakeMS:  Millis(last.At - s.start - stopped.To),
		OthersMS: Millis(other.Start - stopped.From),
	}
	r.judged(s.requests, s.now())
	return r
}
