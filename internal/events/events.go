// Package events calls what a caller has given to a client and no call of the caller's waits for:
// Lost hooks and log handlers. They run in a goroutine of their own, one after the other. What
// blocks there delays what comes after it there, and nothing else.
package events

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// mostLogs is how many log records wait for their handlers. Further ones are dropped.
const mostLogs = 1000

// Queue has the events of a client. The zero value is ready. It has a goroutine while it has events.
type Queue struct {
	mu      sync.Mutex // guards what follows
	waiting []func()
	logs    int // how many of waiting are log records
	dropped int // log records, since the log was last told
	running bool
}

// Do runs f after all earlier events. It does not wait for that.
func (q *Queue) Do(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.put(f)
}

// put adds f. q.mu is held.
func (q *Queue) put(f func()) {
	q.waiting = append(q.waiting, f)
	if !q.running {
		q.running = true
		go q.run()
	}
}

func (q *Queue) run() {
	for f := q.next(); f != nil; f = q.next() {
		f()
	}
}

// next takes the first event; nil: there is none, and the goroutine ends. That is one step, so that
// whoever adds an event later starts another goroutine.
func (q *Queue) next() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.running, q.waiting = false, nil
		return nil
	}
	f := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return f
}

// Wait waits until all earlier events have run, but no longer than most.
func (q *Queue) Wait(most time.Duration) {
	done := make(chan struct{})
	q.Do(func() { close(done) })
	select {
	case <-done:
	case <-time.After(most):
	}
}

// Logger returns a logger whose records go to log's handler as events.
func (q *Queue) Logger(log *slog.Logger) *slog.Logger { return slog.New(handler{log.Handler(), q}) }

type handler struct {
	to     slog.Handler
	events *Queue
}

// Enabled implements slog.Handler. The other handler is asked as an event: it may block.
func (h handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler. Behind mostLogs records that wait r is dropped; after them another
// record tells how many were.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	q := h.events
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.logs == mostLogs {
		if q.dropped++; q.dropped == 1 {
			q.put(h.tellDropped)
		}
		return nil
	}
	q.logs++
	q.put(func() {
		q.mu.Lock()
		q.logs--
		q.mu.Unlock()
		h.pass(ctx, r)
	})
	return nil
}

func (h handler) pass(ctx context.Context, r slog.Record) {
	if h.to.Enabled(ctx, r.Level) {
		_ = h.to.Handle(ctx, r)
	}
}

func (h handler) tellDropped() {
	h.events.mu.Lock()
	n := h.events.dropped
	h.events.dropped = 0
	h.events.mu.Unlock()
	r := slog.NewRecord(time.Now(), slog.LevelWarn, "berth: log records were dropped, because a hook or the log's handler took too long", 0)
	r.Add("records", n)
	h.pass(context.Background(), r)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.to.WithAttrs(attrs), h.events}
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.to.WithGroup(name), h.events}
}
