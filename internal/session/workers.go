package session

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

const (
	// mostRounds is how many rounds to one server may be in flight before calls gather.
	mostRounds = 3
	// mostTogether bounds a round, whose replies come back together.
	mostTogether = 40
	// hangs is how long rounds may keep others waiting: if they take longer, their connections
	// hang or the server is busy, and they no longer count. While those that follow hang, too,
	// the time doubles, so that an outage takes few connections and goroutines, however long it
	// lasts and however many semaphores wait for its end.
	hangs = 20 * time.Millisecond
	// mostIdle is how many workers wait when there is nothing to do.
	mostIdle = 8
)

// workers are the goroutines that make a session's calls. Semaphores that want one stand in line.
// A worker takes those that are there, and their calls make a round, which travels together: one
// blocking call of the Redis client. While enough rounds are in flight, the line grows. A call that
// finds fewer leaves at once, so a lone one waits for nobody.
//
// Calls to several servers go alone, each by a worker of its own, since one server could delay the
// others.
//
// Some workers stay when they have nothing to do: a call goes deep into the Redis client, and on the
// way there the stack of a new goroutine would be copied three times, which costs more than
// everything else that berth does for a call.
type workers struct {
	ctx     context.Context //nolint:containedctx // the session's life
	store   *protocol.Store
	several bool     // servers
	jobs    chan int // the generation of a round for one of those that are idle; has room for each

	mu         sync.Mutex
	waiting    []*Semaphore // the line; each semaphore once
	held       bool         // nobody takes it
	rounds     int          // in flight, of this generation
	generation int          // a new one begins when all in flight hang
	hangs      time.Duration
	began      time.Time // the latest round
	idle       int       // workers that have nothing to do, and were given nothing
	watched    bool      // watch will be called

	noYield atomic.Int64 // until when yield does nothing, by time.Time.UnixNano
}

func newWorkers(ctx context.Context, store *protocol.Store) *workers {
	return &workers{ctx: ctx, store: store, several: store.Sharded(), jobs: make(chan int, mostIdle), hangs: hangs}
}

// line puts s in line for a call. It does not wait.
func (w *workers) line(s *Semaphore) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = append(w.waiting, s)
	w.start()
}

// hold has the line grow until letGo is called.
func (w *workers) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = true
}

// letGo ends hold. It may be called more than once.
func (w *workers) letGo() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = false
	for range w.waiting {
		w.start()
	}
}

// start has a worker take the line, unless that is held, or enough rounds are in flight. If these
// hang, and nobody else comes, the line goes on all the same: who is in it has no call yet that could
// be given up. w.mu is held.
func (w *workers) start() {
	if w.held {
		return
	}
	if w.full() && time.Since(w.began) > w.hangs {
		w.rounds, w.generation, w.hangs = 0, w.generation+1, 2*w.hangs
	}
	if w.full() {
		if !w.watched {
			w.watched = true
			time.AfterFunc(w.hangs-time.Since(w.began)+time.Millisecond, w.watch)
		}
		return
	}
	w.begin()
	if w.idle == 0 {
		go w.work(w.generation)
		return
	}
	w.idle--
	w.jobs <- w.generation
}

// watch looks whether the rounds hang that the line waits for.
func (w *workers) watch() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched = false
	if len(w.waiting) > 0 && w.ctx.Err() == nil {
		w.start()
	}
}

// full reports whether enough rounds are in flight. w.mu is held.
func (w *workers) full() bool { return w.rounds >= mostRounds && !w.several }

// begin counts a round. w.mu is held.
func (w *workers) begin() { w.rounds, w.began = w.rounds+1, time.Now() }

// work makes rounds until there is nothing to do, and enough other workers wait.
func (w *workers) work(generation int) {
	for ok := true; ok; {
		sent := w.round()
		generation, ok = w.next(generation, sent)
	}
}

// next ends a round, and returns the generation of the next one; false: enough other workers wait for
// it, or the session is closed. A round that has sent nothing says nothing of the server.
func (w *workers) next(generation int, sent bool) (int, bool) {
	w.mu.Lock()
	if generation == w.generation {
		if w.rounds--; sent {
			w.hangs = hangs
		}
	}
	if len(w.waiting) > 0 && !w.held && !w.full() {
		w.begin()
		defer w.mu.Unlock()
		return w.generation, true
	}
	if w.idle == mostIdle {
		defer w.mu.Unlock()
		return 0, false
	}
	w.idle++
	w.mu.Unlock()
	select {
	case generation = <-w.jobs:
		return generation, true
	case <-w.ctx.Done():
		return 0, false
	}
}

const (
	// longYield is longer than a few hundred goroutines take that only ask for permits.
	longYield = 3 * time.Millisecond
	// rareYield is for how many times as long there is no other yield after a long one.
	rareYield = 200
)

// yield lets those goroutines run that an answer has woken, unless that took long of late: where
// goroutines compute, each turn of theirs takes up to 10 ms, and whoever yields waits for them all.
func (w *workers) yield() {
	began := time.Now()
	if !w.mayYield(began) {
		return
	}
	runtime.Gosched()
	w.yielded(began, time.Since(began))
}

func (w *workers) mayYield(now time.Time) bool { return now.UnixNano() >= w.noYield.Load() }

// yielded notes how long a yield took.
func (w *workers) yielded(began time.Time, took time.Duration) {
	if took > longYield {
		w.noYield.Store(began.Add(rareYield * took).UnixNano())
	}
}

// take returns the semaphores that are next in line.
func (w *workers) take() []*Semaphore {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.waiting), mostTogether)
	if w.several {
		n = min(n, 1)
	}
	head := w.waiting[:n:n]
	if w.waiting = w.waiting[n:]; len(w.waiting) == 0 {
		w.waiting = nil
	}
	return head
}

// round makes the calls of those that are next in line, handles their outcomes, and reports whether it
// sent any: others may have taken the line, and who stood in it may have left. Before it takes the line
// it lets others run: those whom the last answers have woken come to stand in it, too.
func (w *workers) round() (sent bool) {
	w.yield()
	var together []*sending
	for _, s := range w.take() {
		switch c := s.next(); {
		case c == nil: // nothing is wanted any more
		case protocol.Replicas(c.Ops) > 0 && !w.several:
			go w.send([]*sending{c})
		default:
			together = append(together, c)
		}
	}
	w.send(together)
	return len(together) > 0
}

// send makes calls, and handles their outcomes.
func (w *workers) send(calls []*sending) {
	for len(calls) > 0 {
		all, most := make([]*protocol.Call, len(calls)), time.Duration(0)
		for i, c := range calls {
			all[i], most = &c.Call, max(most, useful(c.of))
		}
		w.store.DoAll(&bounded{w.ctx, time.Now().Add(most)}, all)
		again := calls[:0]
		for _, c := range calls {
			if c.asks != 0 && c.told() {
				again = append(again, c)
			} else {
				c.sem.complete(c.of, c.Reply, c.Err)
			}
		}
		calls = again
	}
}
