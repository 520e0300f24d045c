package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// A chapter is the time for which all Linear, or Timed, users use the same semaphore. The rate of a
// Timed one changes several times meanwhile.
const (
	chapter      = 1500 * time.Millisecond
	timedChapter = 2400 * time.Millisecond
	rateChanges  = timedChapter / 4
)

// gaveUp is less than the time after which Close leaves what it cannot give back.
const gaveUp = 4 * time.Second

// user uses its semaphore again and again, in the manner of its seat.
type user struct {
	*process

	spec     Seat
	seat     int
	rng      *rand.Rand
	own      *redistest.Faults // its network
	rdb      *redis.Client
	client   *berth.Client
	patience time.Duration // after which client repeats a request; 0: long
	sole     bool          // no other user shares client
	ids      int64         // number of ids that client has made, if sole
	tenant   string        // for whom the next request is
}

func (u *user) run(ctx context.Context) {
	manner := map[Mode]func(context.Context){Linear: u.linear, Late: u.late, Crowd: u.crowd, Queue: u.wait, Mix: u.wait, Line: u.stand, Brief: u.stop, Tenants: u.burst, Spend: u.use, Timed: u.await}[u.spec.Mode]
	for ctx.Err() == nil {
		manner(ctx)
	}
}

// between returns a duration from a to b, from the seed.
func (u *user) between(a, b time.Duration) time.Duration {
	return a + time.Duration(u.rng.Int64N(int64(b-a)))
}

// one returns true one time in n.
func (u *user) one(n int) bool { return u.rng.IntN(n) == 0 }

func (u *user) linear(ctx context.Context) {
	h := u.adopt(context.Background())
	if h == nil {
		h = u.ask(context.Background(), history.Try, 1+u.rng.IntN(2))
	}
	if h != nil {
		h.hold(ctx, u.between(0, 20*time.Millisecond))
		h.part(4)
	}
	pause(ctx, u.between(time.Millisecond, 30*time.Millisecond))
}

func (u *user) late(ctx context.Context) {
	h := u.adopt(context.Background(), berth.WithoutRenewal())
	if h == nil {
		h = u.ask(context.Background(), history.Try, 1, berth.WithoutRenewal())
	}
	switch {
	case h == nil:
	case u.one(3):
		h.part(2)
	default:
		h.drop(ctx)
	}
	pause(ctx, u.between(time.Millisecond, 20*time.Millisecond))
}

func (u *user) crowd(ctx context.Context) {
	wait, cancel := context.WithTimeout(ctx, u.between(10*time.Millisecond, 300*time.Millisecond))
	defer cancel()
	if h := u.ask(wait, history.Acquire, 1+u.rng.IntN(2)); h != nil {
		h.hold(ctx, u.between(0, 30*time.Millisecond))
		h.release()
	}
	pause(ctx, u.between(0, 10*time.Millisecond))
}

// stand waits in line, with others of its client before and behind it.
func (u *user) stand(ctx context.Context) {
	u.visit(ctx, u.between(0, 20*time.Millisecond))
	pause(ctx, u.between(0, 600*time.Millisecond))
}

func (u *user) stop(ctx context.Context) {
	u.visit(ctx, 0)
	pause(ctx, u.between(0, 100*time.Millisecond))
}

// name is that of the semaphore that the user uses now.
func (u *user) name() string {
	since := history.Now().Sub(u.Start)
	switch u.spec.Mode {
	case Linear:
		return fmt.Sprintf("%s.%d", u.spec.Name, since/chapter)
	case Timed:
		return fmt.Sprintf("%s.%d", u.spec.Name, since/timedChapter)
	case Line: // nobody else's crash may keep the line waiting
		return fmt.Sprintf("%s.%d", u.spec.Name, u.Proc)
	default:
		return u.spec.Name
	}
}

// patient is for how long most requests wait.
const patient = 20 * time.Second

// visit waits for a permit and holds it for d.
func (u *user) visit(ctx context.Context, d time.Duration) { u.call(ctx, patient, d) }

// call is a visit that gives up after some time.
func (u *user) call(ctx context.Context, most, d time.Duration) {
	wait, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if h := u.ask(wait, history.Acquire, 1); h != nil {
		h.hold(ctx, d)
		h.release()
	}
}

func (u *user) wait(ctx context.Context) {
	weight := 1
	if u.spec.Mode == Mix {
		weight += u.rng.IntN(u.spec.Limit)
	}
	if u.one(10) {
		if h := u.ask(ctx, history.Try, weight); h != nil {
			h.release()
		}
		return
	}
	wait, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if u.one(15) {
		if h := u.ask(wait, history.Acquire, weight, berth.WithoutRenewal()); h != nil {
			h.drop(ctx)
		}
		return
	}
	h := u.adopt(wait)
	if h == nil {
		h = u.ask(wait, history.Acquire, weight)
	}
	if h == nil {
		return
	}
	hold := u.between(0, 50*time.Millisecond)
	if u.one(10) {
		hold = u.between(u.spec.TTL/2, u.spec.TTL*3/2)
	}
	h.hold(ctx, hold)
	h.part(6)
	pause(ctx, u.between(0, 20*time.Millisecond))
}

// ask asks for permits. It returns nil if it got none.
func (u *user) ask(ctx context.Context, verb history.Verb, weight int, opts ...berth.AcquireOption) *holding {
	name := u.name()
	rates := u.rates()
	sem, err := u.client.Semaphore(name, u.spec.Limit, append(declare(rates), berth.TTL(u.spec.TTL), berth.Weight(weight), berth.MaxHold(u.spec.MaxHold))...)
	must(err)
	e := history.Event{Verb: verb, Name: name, Limit: u.spec.Limit, Weight: weight, TTL: u.spec.TTL, Rates: rates, Costs: u.costs(), MaxHold: u.spec.MaxHold}
	if rates != "" && u.one(50) { // all hold still for a moment
		u.pauseAll(ctx)
	}
	for _, c := range e.Costs.All() {
		opts = append(opts, berth.Cost(c.N).Of(c.Unit))
	}
	if e.Tenant = u.tenant; e.Tenant != "" {
		opts = append(opts, berth.Tenant(e.Tenant))
	}
	return u.request(ctx, e, func(e history.Event) (*berth.Lease, error) {
		if verb == history.Try {
			return sem.TryAcquire(ctx, opts...)
		}
		e.Kind = history.Queued
		var told sync.Once
		return sem.Acquire(ctx, append(opts, berth.OnQueued(func(berth.Place) {
			told.Do(func() { u.out.Write(e) })
		}))...)
	})
}

// request makes a request and records it, as e describes it, and its outcome. It
// returns nil if it has no lease.
func (u *user) request(ctx context.Context, e history.Event, call func(e history.Event) (*berth.Lease, error)) *holding {
	e.Op, e.Seat, e.Kind = u.out.Op(), u.seat, history.Invoke
	u.out.Write(e)
	u.ids++
	asked := history.Now()
	lease, err := call(e)
	e.Kind = history.Return
	if err != nil {
		e.Outcome, e.Used, e.Text = outcome(err)
		if e.Outcome == history.Busy && u.sole && u.patience > 0 && history.Now().Sub(asked) >= u.patience {
			e.Again, e.Outcome = true, u.surely()
		}
		u.out.Write(e)
		if e.Outcome == history.Refused {
			pause(ctx, 20*time.Millisecond) // the next request would probably be refused, too
		}
		return nil
	}
	e.Outcome, e.ID, e.Token, e.Slot, e.Again = history.OK, lease.ID(), lease.Token(), lease.Slot(), u.again(lease.ID())
	if until := lease.ValidUntil(); !until.IsZero() {
		e.Until = history.Of(until)
	}
	u.out.Write(e)
	h := &holding{user: u, lease: lease, event: e, until: e.Until}
	context.AfterFunc(lease.Context(), h.ended)
	return h
}

// surely waits until the client has given back what a first copy of a request may have got
// that was refused when it was repeated: the client does so by itself, but only Close tells
// when it has. It returns what is known of the request then.
func (u *user) surely() history.Outcome {
	start := history.Now()
	must(u.client.Close())
	sure := history.Now().Sub(start) < gaveUp
	u.reopen()
	if !sure {
		return history.Unknown
	}
	return history.Busy
}

// reopen gives the user another client.
func (u *user) reopen() {
	client, err := berth.New(u.rdb, berth.Prefix(u.Prefix))
	must(err)
	u.client, u.ids = client, 0
}

// again reports whether the request may have got a second id, and with it a later
// place in line. It can tell because ids are numbered.
func (u *user) again(id string) bool {
	_, number, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(number, 36, 64)
	same := u.sole && err == nil && n == u.ids
	u.ids = n
	return !same
}

// outcome classifies an error: the outcome, the permits in use if it is Busy, and the
// error's text. A request that failed otherwise is unknown: it may have been executed,
// and the client gives back later what it got.
func outcome(err error) (history.Outcome, int, string) {
	busy, _ := errors.AsType[*berth.BusyError](err)
	lost, _ := errors.AsType[*berth.LostError](err)
	switch {
	case err == nil:
		return history.OK, 0, ""
	case busy != nil:
		return history.Busy, busy.InUse, ""
	case lost != nil && lost.Reason == berth.LostAdopted:
		return history.Taken, 0, err.Error()
	case errors.Is(err, berth.ErrLost), errors.Is(err, berth.ErrReleased), errors.Is(err, berth.ErrEvicted):
		return history.Gone, 0, err.Error()
	case errors.Is(err, berth.ErrRefused), errors.Is(err, berth.ErrCorrupt):
		return history.Refused, 0, err.Error()
	default:
		return history.Unknown, 0, err.Error()
	}
}
