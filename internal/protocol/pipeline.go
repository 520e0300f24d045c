package protocol

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Calls of different semaphores share pipelines: while some are in flight, the next calls
// gather, and one pipeline then carries them all. A call is sent at once while fewer than
// mostInFlight pipelines are in flight, so this costs a lone call nothing.
// docs/decisions/0011-calls-travel-together.md tells what it gains.

const (
	// mostInFlight is how many pipelines may be in flight before calls gather.
	mostInFlight = 3
	// mostQueued bounds a pipeline, whose replies come back together.
	mostQueued = 40
	// hangs is how long pipelines may keep others waiting: if they take longer, their
	// connections hang or the server is busy, and the next one uses another connection.
	hangs = 20 * time.Millisecond
)

// errUnsent: the call's time was over before it was sent.
var errUnsent = errors.New("waited in this process for too long behind other calls")

// pipeline is where calls gather on their way to one server.
type pipeline struct {
	rdb *redis.Client

	mu         sync.Mutex
	inFlight   int // pipelines of this generation
	generation int // a new one begins when all in flight hang: those no longer count
	started    time.Time
	waiting    []*queued
	idle       sync.Pool // of *queued
}

// queued is a command that is waiting or under way.
type queued struct {
	ctx        context.Context //nolint:containedctx // the call's
	cmd        redis.Cmder
	lead       chan batch // gets one value: the batch that it is to send, or nil when another sent it
	generation int        // of that batch
}

// batch has the commands of one pipeline; the caller of the first one sends it.
type batch []*queued

// Process executes cmd, alone or with others. The error is also cmd's.
func (p *pipeline) Process(ctx context.Context, cmd redis.Cmder) error {
	q, ok := p.idle.Get().(*queued)
	if !ok {
		q = &queued{lead: make(chan batch, 1)}
	}
	q.ctx, q.cmd = ctx, cmd
	if b := p.join(q); b != nil {
		p.send(b, q.generation)
	}
	q.ctx, q.cmd = nil, nil
	p.idle.Put(q) // nothing else refers to it any more
	return cmd.Err()
}

// join returns the batch that q's caller must send, at once if there is room in flight, or
// nil when another caller has sent q.
func (p *pipeline) join(q *queued) batch {
	p.mu.Lock()
	if p.inFlight >= mostInFlight && time.Since(p.started) > hangs {
		p.inFlight, p.generation = 0, p.generation+1
	}
	if p.inFlight < mostInFlight {
		b := append(batch{q}, p.take(mostQueued-1)...)
		q.generation = p.start()
		p.mu.Unlock()
		return b
	}
	p.waiting = append(p.waiting, q)
	p.mu.Unlock()
	return <-q.lead // there will be one: every batch returns, and starts the next
}

// start notes that a batch starts, and returns its generation. p.mu is held.
func (p *pipeline) start() int {
	p.inFlight++
	p.started = time.Now()
	return p.generation
}

// take takes up to n commands that wait. p.mu is held.
func (p *pipeline) take(n int) batch {
	n = min(n, len(p.waiting))
	b := append(batch(nil), p.waiting[:n]...)
	p.waiting = append(p.waiting[:0], p.waiting[n:]...)
	return b
}

// send sends b, wakes the callers of its commands, and starts a batch of the commands that
// have gathered meanwhile.
func (p *pipeline) send(b batch, generation int) {
	b.call(p.rdb)
	p.mu.Lock()
	if generation == p.generation {
		p.inFlight--
	}
	var next batch
	if p.inFlight < mostInFlight {
		if next = p.take(mostQueued); len(next) > 0 {
			next[0].generation = p.start()
		}
	}
	p.mu.Unlock()
	if len(next) > 0 {
		next[0].lead <- next
	}
	for _, q := range b[1:] {
		q.lead <- nil
	}
}

// call executes the commands of b; each has its own error. Those whose time is over are not
// sent: their callers have given them up, and sent another copy.
func (b batch) call(rdb *redis.Client) {
	now := time.Now()
	var live batch
	for _, q := range b {
		if deadline, ok := q.ctx.Deadline(); ok && now.After(deadline) {
			q.cmd.SetErr(errUnsent)
			continue
		}
		live = append(live, q)
	}
	switch len(live) {
	case 0:
	case 1:
		_ = rdb.Process(live[0].ctx, live[0].cmd)
	default:
		pipe := rdb.Pipeline()
		for _, q := range live {
			_ = pipe.Process(q.ctx, q.cmd) // only queues it
		}
		_, _ = pipe.Exec(live.patient())
	}
}

// patient returns the context of the command that waits longest, whose deadline may become
// that of the connection. The others give up by themselves.
func (b batch) patient() context.Context {
	most := b[0]
	for _, q := range b[1:] {
		end, ends := q.ctx.Deadline()
		if latest, limited := most.ctx.Deadline(); limited && (!ends || end.After(latest)) {
			most = q
		}
	}
	return most.ctx
}
