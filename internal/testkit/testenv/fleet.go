package testenv

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// Peer is a process: a client with a network of its own.
type Peer struct {
	*berth.Client
	e     *Env
	Net   *redistest.Faults
	Redis *redis.Client
}

// Peer starts a process, which is closed when the test ends.
func (e *Env) Peer(opts ...berth.ClientOption) *Peer {
	e.Helper()
	p := &Peer{e: e, Net: redistest.NewFaults(e.T)}
	o := e.Options
	p.Net.Wrap(&o)
	p.Redis = redis.NewClient(&o)
	e.Cleanup(func() { _ = p.Redis.Close() })
	p.Client = e.Client(p.Redis, opts...)
	return p
}

// Inspector returns an Inspector on the process's client.
func (p *Peer) Inspector() *berthadmin.Inspector { return berthadmin.Of(p.Client) }

// Crash ends the process as a kill does, as far as Redis can tell: its
// connections close, and it neither renews nor releases any more.
func (p *Peer) Crash() {
	p.Net.Down()
	_ = p.Redis.Close()
}

// Sem returns the semaphore that tests use.
func (p *Peer) Sem(limit int, opts ...berth.Option) *berth.Semaphore {
	p.e.Helper()
	return p.Named(Name, limit, opts...)
}

// Named returns the semaphore called name.
func (p *Peer) Named(name string, limit int, opts ...berth.Option) *berth.Semaphore {
	p.e.Helper()
	s, err := p.Semaphore(name, limit, opts...)
	p.e.Must(err)
	return s
}

// Hold acquires, which must work out.
func (e *Env) Hold(s *berth.Semaphore, opts ...berth.AcquireOption) *berth.Lease {
	e.Helper()
	l, err := e.acquire(e.Ctx, s, opts)
	e.Must(err)
	return l
}

// acquire acquires, again where a real machine was too slow for it, or for a short TTL.
func (e *Env) acquire(ctx context.Context, s *berth.Semaphore, opts []berth.AcquireOption) (l *berth.Lease, err error) {
	e.Helper()
	err = e.InTime(func() error {
		return e.Timely(func() (err error) {
			l, err = s.Acquire(ctx, opts...)
			return err
		})
	})
	return l, err
}

// InTime does something with a lease of its own, and again with another one where that ran
// out: a real machine may be too slow for a short TTL. A bubble is not.
func (e *Env) InTime(do func() error) (err error) {
	e.Helper()
	for range 20 {
		if err = do(); !e.RanOut(err) {
			break
		}
	}
	return err
}

// RanOut tells whether err is that of a lease that a real machine was too slow for.
func (e *Env) RanOut(err error) bool {
	lost, ok := errors.AsType[*berth.LostError](err)
	return !e.Exact && ok && (lost.Reason == berth.LostUntrusted || lost.Reason == berth.LostExpired)
}

// Struck takes a lease and strikes while it can be trusted. Where a real machine was too slow
// for that, it undoes the strike and begins again.
func (e *Env) Struck(s *berth.Semaphore, strike, undo func()) *berth.Lease {
	e.Helper()
	for range 20 {
		l := e.Hold(s)
		strike()
		if e.Exact || l.Valid() {
			return l
		}
		undo()
	}
	e.Fatal("no lease lasted until the strike")
	panic("unreachable")
}

// Renew renews a lease, again where a real machine was too slow for the 5 seconds.
func (e *Env) Renew(l *berth.Lease) error {
	e.Helper()
	return e.Timely(func() error { return l.Renew(e.Ctx) })
}

// Release gives leases back, which must work out.
func (e *Env) Release(leases ...*berth.Lease) {
	e.Helper()
	for _, l := range leases {
		e.Must(e.GiveBack(l))
	}
}

// GiveBack gives a lease back. Where a real machine is too slow for the 5 seconds, berth goes
// on in the background.
func (e *Env) GiveBack(l *berth.Lease) error {
	e.Helper()
	start := time.Now()
	err := l.Release()
	if !e.Exact && errors.Is(err, berth.ErrUnreachable) && time.Since(start) >= 5*time.Second {
		e.untilGone(l)
		return nil
	}
	return err
}

// untilGone waits until the server does not know a lease any more.
func (e *Env) untilGone(l *berth.Lease) {
	e.Helper()
	for {
		st, err := e.Inspector.Show(e.Ctx, l.Name())
		if errors.Is(err, berthadmin.ErrNotFound) {
			return
		}
		e.Must(err)
		if !slices.ContainsFunc(st.Leases, func(h berthadmin.Holder) bool { return h.ID == l.ID() }) {
			return
		}
		e.Pass(e.Tick())
	}
}

// Lost waits for the end of a lease and returns why.
func (e *Env) Lost(l *berth.Lease) *berth.LostError {
	e.Helper()
	select {
	case <-l.Context().Done():
	case <-e.Ctx.Done():
		e.Fatal("the lease was not lost")
	}
	var lost *berth.LostError
	if cause := context.Cause(l.Context()); !errors.As(cause, &lost) {
		e.Fatalf("the lease ended with %v, want a LostError", cause)
	}
	return lost
}

// Request is an Acquire that waits in the queue.
type Request struct {
	e      *Env
	Cancel context.CancelFunc
	Done   chan struct{}
	Lease  *berth.Lease // this and the rest are set when Done is closed
	Err    error
	At     time.Time
}

// Start begins an Acquire in the background.
func (e *Env) Start(s *berth.Semaphore, opts ...berth.AcquireOption) *Request {
	return e.begin(e.Ctx, func(ctx context.Context) (*berth.Lease, error) { return e.acquire(ctx, s, opts) })
}

func (e *Env) begin(ctx context.Context, acquire func(context.Context) (*berth.Lease, error)) *Request {
	r := &Request{e: e, Done: make(chan struct{})}
	ctx, r.Cancel = context.WithCancel(ctx)
	go func() {
		defer close(r.Done)
		defer r.Cancel()
		r.Lease, r.Err = acquire(ctx)
		r.At = time.Now()
	}()
	return r
}

// Queue begins an Acquire and returns when it knows that it is in the queue: from then on it
// waits for as long as it takes.
func (e *Env) Queue(s *berth.Semaphore, opts ...berth.AcquireOption) *Request {
	e.Helper()
	return e.QueueUntil(e.Ctx, s, opts...)
}

// QueueUntil is Queue for a wait that ends with ctx.
func (e *Env) QueueUntil(ctx context.Context, s *berth.Semaphore, opts ...berth.AcquireOption) *Request {
	e.Helper()
	r, queued := e.queue(ctx, s, opts)
	if !queued {
		e.Fatalf("it did not queue: lease %v, error %v", r.Lease, r.Err)
	}
	return r
}

// Follow is Queue behind a lease with a short TTL, which may be over on a real machine: then
// it is granted at once.
func (e *Env) Follow(s *berth.Semaphore, opts ...berth.AcquireOption) *Request {
	e.Helper()
	r, queued := e.queue(e.Ctx, s, opts)
	if !queued && (e.Exact || r.Err != nil) {
		e.Fatalf("it did not queue: lease %v, error %v", r.Lease, r.Err)
	}
	return r
}

// queue begins an Acquire, and returns when it is in the queue, or has ended without that.
func (e *Env) queue(ctx context.Context, s *berth.Semaphore, opts []berth.AcquireOption) (r *Request, queued bool) {
	e.Helper()
	inQueue := make(chan struct{})
	var once sync.Once
	opts = append(opts, berth.OnQueued(func(berth.Place) { once.Do(func() { close(inQueue) }) }))
	r = e.begin(ctx, func(ctx context.Context) (*berth.Lease, error) { return e.acquire(ctx, s, opts) })
	select {
	case <-inQueue:
		return r, true
	case <-r.Done:
	}
	select {
	case <-inQueue: // and was granted before this goroutine looked
		return r, true
	default:
		return r, false
	}
}

// Subscribed waits until messages reach all who are in the queue: a real machine may be too
// slow for that before they are in it.
func (e *Env) Subscribed() {
	e.Helper()
	for {
		var channels []string
		for _, w := range e.Show().Queue {
			channel, _, _ := strings.Cut(w.ID, ".")
			channels = append(channels, e.Prefix+":inbox:"+channel)
		}
		if len(channels) == 0 {
			e.Fatal("nobody is in the queue")
		}
		subscribers, err := e.Redis.PubSubNumSub(e.Ctx, channels...).Result()
		e.Must(err)
		if !slices.ContainsFunc(channels, func(c string) bool { return subscribers[c] == 0 }) {
			return
		}
		e.Pass(e.Tick())
	}
}

// Granted returns the lease, as soon as it is there.
func (r *Request) Granted() *berth.Lease {
	r.e.Helper()
	<-r.Done
	r.e.Must(r.Err)
	return r.Lease
}

// Served waits for the lease and gives it back, if a real machine was not too slow for its short
// TTL.
func (r *Request) Served() {
	r.e.Helper()
	if err := r.e.GiveBack(r.Granted()); !r.e.RanOut(err) {
		r.e.Must(err)
	}
}

// Refused waits for the error, which must be want to errors.Is.
func (r *Request) Refused(want error) error {
	r.e.Helper()
	<-r.Done
	r.e.WantErr(r.Err, want)
	return r.Err
}

// Waits fails unless r is still in the queue, here and on the server.
func (r *Request) Waits() {
	r.e.Helper()
	if r.e.Exact {
		synctest.Wait()
	}
	if r.e.Show().Waiting == 0 {
		r.e.Error("nobody is in the queue on the server")
	}
	select {
	case <-r.Done:
		r.e.Errorf("it does not wait any more: lease %v, error %v", r.Lease, r.Err)
	default:
	}
}
