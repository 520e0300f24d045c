package protocol

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Calls for different semaphores travel together: while calls are in flight, the
// next ones gather, and the first of them then takes all along in one pipeline.
// A call that finds a free lane goes at once, so this costs a lone call nothing.
// docs/decisions tells what it gains.

const (
	// lanes is how many flights may be on their way before calls gather.
	lanes = 3
	// mostAboard bounds a pipeline, whose replies come back together.
	mostAboard = 40
	// lanePatience is how long a flight may keep others waiting: one that takes
	// longer met a connection that hangs, or a server that is busy, and the next
	// call goes on another connection and takes along who waits.
	lanePatience = 20 * time.Millisecond
)

// errUnsent: the call was given up before it was sent.
var errUnsent = errors.New("waited in this process for too long behind other calls")

// line is where calls gather on their way to one server.
type line struct {
	rdb *redis.Client

	mu      sync.Mutex
	flying  int       // flights of this era on their way
	era     int       // begins when all lanes hang: the flights before it no longer count
	started time.Time // when the last flight left
	waiting []*passenger
	idle    sync.Pool // passengers who have arrived
}

// passenger is a call that waits in line.
type passenger struct {
	ctx  context.Context //nolint:containedctx // the call's
	cmd  redis.Cmder
	turn chan flight // gets one value: the flight that it is to conduct, or nil when it was aboard one
	era  int         // of that flight
}

// flight is who travels together; the first of them makes the call.
type flight []*passenger

// Process executes cmd, alone or with others. The error is also cmd's.
func (l *line) Process(ctx context.Context, cmd redis.Cmder) error {
	p, ok := l.idle.Get().(*passenger)
	if !ok {
		p = &passenger{turn: make(chan flight, 1)}
	}
	p.ctx, p.cmd = ctx, cmd
	if f := l.join(p); f != nil {
		l.fly(f, p.era)
	}
	p.ctx, p.cmd = nil, nil
	l.idle.Put(p) // nobody else knows it any more
	return cmd.Err()
}

// join returns the flight that p is to conduct, at once where a lane is free; or
// nil once p was aboard of another's.
func (l *line) join(p *passenger) flight {
	l.mu.Lock()
	if l.flying >= lanes && time.Since(l.started) > lanePatience {
		l.flying, l.era = 0, l.era+1
	}
	if l.flying < lanes {
		f := append(flight{p}, l.board(mostAboard-1)...)
		p.era = l.leave()
		l.mu.Unlock()
		return f
	}
	l.waiting = append(l.waiting, p)
	l.mu.Unlock()
	return <-p.turn // it comes: every flight lands, and sends off the next
}

// leave notes that a flight leaves, and returns its era. l.mu is held.
func (l *line) leave() int {
	l.flying++
	l.started = time.Now()
	return l.era
}

// board takes up to n passengers out of the line. l.mu is held.
func (l *line) board(n int) flight {
	n = min(n, len(l.waiting))
	f := append(flight(nil), l.waiting[:n]...)
	l.waiting = append(l.waiting[:0], l.waiting[n:]...)
	return f
}

// fly makes the call for all of f, tells them, and sends off who gathered meanwhile.
func (l *line) fly(f flight, era int) {
	f.call(l.rdb)
	l.mu.Lock()
	if era == l.era {
		l.flying--
	}
	var next flight
	if l.flying < lanes {
		if next = l.board(mostAboard); len(next) > 0 {
			next[0].era = l.leave()
		}
	}
	l.mu.Unlock()
	if len(next) > 0 {
		next[0].turn <- next
	}
	for _, p := range f[1:] {
		p.turn <- nil
	}
}

// call executes the commands of f; each has its own error. Those who have been
// given up meanwhile stay behind: another copy is on its way.
func (f flight) call(rdb *redis.Client) {
	now := time.Now()
	var aboard flight
	for _, p := range f {
		if deadline, ok := p.ctx.Deadline(); ok && now.After(deadline) {
			p.cmd.SetErr(errUnsent)
			continue
		}
		aboard = append(aboard, p)
	}
	switch len(aboard) {
	case 0:
	case 1:
		_ = rdb.Process(aboard[0].ctx, aboard[0].cmd)
	default:
		pipe := rdb.Pipeline()
		for _, p := range aboard {
			_ = pipe.Process(p.ctx, p.cmd) // only put in line
		}
		_, _ = pipe.Exec(aboard[0].ctx)
	}
}
