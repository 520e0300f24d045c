package protocol

import (
	"context"
	"fmt"
	"math/bits"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// calls is a store on a network that fails on command, in a bubble of
// testing/synctest, and a list of the pipelines that were sent.
type calls struct {
	*testing.T
	net   *redistest.Faults
	store *Store

	mu    sync.Mutex
	pipes []int // guarded by mu; how many commands each had
	done  sync.WaitGroup
}

func withCalls(t *testing.T, test func(*calls)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mr := redistest.NewEmbedded(t)
		p := &calls{T: t, net: redistest.NewFaults(t)}
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: p.net.Dialer(redistest.Embedded(mr)), PoolSize: 1000, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = rdb.Close() })
		rdb.AddHook(pipeCounter{p})
		p.store = NewStore(rdb, "berth", "s0", 1, "host")
		test(p)
		p.done.Wait()
	})
}

type pipeCounter struct{ p *calls }

func (pipeCounter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (pipeCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c pipeCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" { // not what makes a connection ready
			c.p.mu.Lock()
			c.p.pipes = append(c.p.pipes, len(cmds))
			c.p.mu.Unlock()
		}
		return next(ctx, cmds)
	}
}

// acquire starts n acquires, each of a semaphore of its own, and checks that they
// end with a grant, or with an error of that kind.
func (p *calls) acquire(ctx context.Context, name string, n int, kind error) {
	for i := range n {
		p.done.Go(func() {
			ops := []Op{{Verb: Acquire, ID: fmt.Sprint("s0.", i), Terms: terms(1)}}
			_, err := p.store.Do(ctx, p.store.Key(fmt.Sprint(name, i)), 0, ops)
			if kind != nil {
				wantKind(p, err, kind, nil)
			} else if err != nil || ops[0].Result.Code != Granted {
				p.Errorf("%s %d: %v, %+v", name, i, err, ops[0].Result)
			}
		})
	}
	synctest.Wait()
}

// occupy fills the mostInFlight with calls whose fault keeps them there.
func (p *calls) occupy(fault redistest.Fault) *redistest.Injection {
	p.acquire(p.Context(), "first", 1, nil) // the server knows the script
	held := p.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: fault, Times: mostInFlight})
	kind := error(nil)
	if fault == redistest.SwallowReply {
		kind = ErrUnknown
	}
	p.acquire(p.Context(), "in flight", mostInFlight, kind)
	return held
}

func TestCallsThatGatherTravelTogether(t *testing.T) {
	withCalls(t, func(p *calls) {
		held := p.occupy(redistest.DelayReply)
		p.acquire(p.Context(), "together", mostQueued+10, nil)
		held.Release()
		p.done.Wait()
		slices.Sort(p.pipes)
		if !slices.Equal(p.pipes, []int{10, mostQueued}) {
			p.Errorf("pipelines of %d commands", p.pipes)
		}
	})
}

// TestTogetherToAServerThatForgotTheScript: each call of the pipeline is refused,
// and then sends the text.
func TestTogetherToAServerThatForgotTheScript(t *testing.T) {
	withCalls(t, func(p *calls) {
		held := p.occupy(redistest.DelayReply)
		if err := p.store.rdb.ScriptFlush(p.Context()).Err(); err != nil {
			p.Fatal(err)
		}
		p.acquire(p.Context(), "together", 5, nil)
		held.Release()
	})
}

// TestHangingPipelinesHoldNobodyUp: after a moment the next call goes on another
// connection, and the calls that wait go with it.
func TestHangingPipelinesHoldNobodyUp(t *testing.T) {
	withCalls(t, func(p *calls) {
		p.occupy(redistest.SwallowReply)
		gathered := time.Now()
		p.acquire(p.Context(), "gathered", 3, nil)
		if p.net.Count("evalsha") > 1+mostInFlight {
			p.Error("a call did not gather")
		}
		<-time.After(hangs + time.Millisecond) // of the bubble
		slow := p.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.DelayReply, Times: 1})
		p.acquire(p.Context(), "next", 1, nil)
		if p.net.Count("evalsha") != 1+mostInFlight+4 {
			p.Errorf("%d calls after %v", p.net.Count("evalsha"), time.Since(gathered))
		}
		slow.Release()
	})
}

// TestHangingLanesAreNotMissed: calls that follow each other closely do not wait
// for the mostInFlight that hang, once one of them has gone round.
func TestHangingLanesAreNotMissed(t *testing.T) {
	withCalls(t, func(p *calls) {
		p.occupy(redistest.SwallowReply)
		<-time.After(hangs + time.Millisecond) // of the bubble
		start := time.Now()
		for i := range 5 {
			p.acquire(p.Context(), fmt.Sprint("next", i), 1, nil)
		}
		if n := p.net.Count("evalsha"); n != 1+mostInFlight+5 || time.Since(start) > 0 {
			p.Errorf("%d calls after %v", n, time.Since(start))
		}
	})
}

// TestCallThatWasGivenUpIsNotSent: its caller has sent another copy, or will.
func TestCallThatWasGivenUpIsNotSent(t *testing.T) {
	withCalls(t, func(p *calls) {
		held := p.occupy(redistest.DelayReply)
		ctx, cancel := context.WithTimeout(p.Context(), 10*time.Millisecond)
		defer cancel()
		p.acquire(ctx, "late", 2, ErrRefused)
		const patient = 4
		p.acquire(p.Context(), "patient", patient, nil)
		<-time.After(11 * time.Millisecond) // of the bubble
		sent := p.net.Count("evalsha")
		held.Release()
		p.done.Wait()
		if n := p.net.Count("evalsha"); n != sent+patient {
			p.Errorf("%d calls were sent after they had been given up", n-sent-patient)
		}
	})
}

// TestHastyCallDoesNotCutOffOthers: a pipeline waits for its reply as long as the most patient
// of its calls, whether that one has a deadline or none, and wherever it stands.
func TestHastyCallDoesNotCutOffOthers(t *testing.T) {
	for what, patience := range map[string]time.Duration{"for ever": 0, "an hour": time.Hour} {
		for _, order := range [][]string{{"hasty", "patient"}, {"patient", "hasty"}} {
			t.Run(fmt.Sprint(order[0], " first, ", what), func(t *testing.T) {
				withCalls(t, func(p *calls) {
					held := p.occupy(redistest.DelayReply)
					hasty, cancel := context.WithTimeout(p.Context(), 10*time.Millisecond)
					defer cancel()
					patient := p.Context()
					if patience > 0 {
						patient, cancel = context.WithTimeout(patient, patience)
						defer cancel()
					}
					for _, name := range order {
						p.acquire(map[string]context.Context{"hasty": hasty, "patient": patient}[name], name, 1, nil)
					}
					slow := p.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.DelayReply, Times: 1})
					held.Release()
					<-time.After(11 * time.Millisecond) // of the bubble
					slow.Release()
				})
			})
		}
	}
}

// TestHangingPipelinesThatComeBack: they have their answers, and count no more: those that
// travel meanwhile are as many as they would be without them, and so are those that follow.
func TestHangingPipelinesThatComeBack(t *testing.T) {
	withCalls(t, func(p *calls) {
		hung := p.occupy(redistest.DelayReply)
		<-time.After(hangs + time.Millisecond) // of the bubble
		held := p.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.DelayReply, Times: mostInFlight})
		p.acquire(p.Context(), "on other connections", mostInFlight, nil)
		hung.Release()
		synctest.Wait()
		sent := p.net.Count("evalsha")
		p.acquire(p.Context(), "gathers", 1, nil)
		if n := p.net.Count("evalsha") - sent; n != 0 {
			p.Error("more calls are in flight than there should be")
		}
		held.Release()
		p.done.Wait()
		held = p.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.DelayReply, Times: mostInFlight})
		sent = p.net.Count("evalsha")
		p.acquire(p.Context(), "afterwards", mostInFlight, nil)
		if n := p.net.Count("evalsha") - sent; n != mostInFlight {
			p.Errorf("%d calls in flight, want %d", n, mostInFlight)
		}
		held.Release()
	})
}

// TestOutageTakesFewConnections: while all hang, the time after which others start doubles; it
// is the old one as soon as there is an answer.
func TestOutageTakesFewConnections(t *testing.T) {
	withCalls(t, func(p *calls) {
		p.acquire(p.Context(), "first", 1, nil) // the server knows the script
		flights := 0
		send := func(span time.Duration) (sent int) {
			before := flights
			for end := time.Now().Add(span); time.Now().Before(end); <-time.After(time.Millisecond) {
				trip := p.store.Trip(p.Context(), p.store.Key("a"), 0, nil, func(Reply, error) {})
				if flight := trip.Start(); flight != nil {
					flights++
					p.done.Go(flight.Fly)
				}
			}
			return flights - before
		}
		silent := p.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.DelayReply, Times: -1})
		if n := send(2 * time.Second); n > 8*mostInFlight {
			p.Errorf("%d connections for an outage of two seconds", n)
		}
		silent.Stop()
		silent.Release()
		p.done.Wait()
		silent = p.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.DelayReply, Times: -1})
		if n := send(2*hangs - time.Millisecond); n != 2*mostInFlight {
			p.Errorf("%d connections at the beginning of the next outage, want %d", n, 2*mostInFlight)
		}
		silent.Release()
	})
}

// TestWhatAnOutcomeLeadsToTravelsOn: it goes with the flight that brought the outcome, and takes no
// other connection.
func TestWhatAnOutcomeLeadsToTravelsOn(t *testing.T) {
	withCalls(t, func(p *calls) {
		p.acquire(p.Context(), "first", 1, nil) // the server knows the script
		const trips = 5
		outcomes := 0
		var again func(Reply, error)
		start := func() *Flight { return p.store.Trip(p.Context(), p.store.Key("a"), 0, nil, again).Start() }
		again = func(_ Reply, err error) {
			if err != nil {
				p.Error(err)
			}
			if outcomes++; outcomes < trips && start() != nil {
				p.Error("it takes another flight")
			}
		}
		if flight := start(); flight != nil {
			flight.Fly()
		}
		if outcomes != trips {
			p.Errorf("%d outcomes", outcomes)
		}
	})
}

// TestCrowdLeavesNoMemory when it has been served.
func TestCrowdLeavesNoMemory(t *testing.T) {
	withCalls(t, func(p *calls) {
		held := p.occupy(redistest.DelayReply)
		const most = 16 * mostQueued
		for range 2 * most {
			p.done.Add(1)
			p.store.Trip(p.Context(), p.store.Key("a"), 0, nil, func(Reply, error) { p.done.Done() }).Start()
		}
		held.Release()
		p.done.Wait()
		synctest.Wait()
		if n := cap(p.store.pipe.waiting); n > most {
			p.Errorf("there is room for %d calls", n)
		}
	})
}

// lateReplies is a client whose pipelines have their replies late.
type lateReplies time.Duration

func (lateReplies) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (l lateReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return l.wait(next(ctx, cmd), cmd)
	}
}

func (l lateReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return l.wait(next(ctx, cmds), cmds[0])
	}
}

func (l lateReplies) wait(err error, cmd redis.Cmder) error {
	if cmd.Name() == "evalsha" { // not what makes a connection ready
		<-time.After(time.Duration(l)) // of the bubble
	}
	return err
}

// TestSlowRedisTakesFewConnections: an answer to a pipeline that was no longer waited for does not
// say that those which travel now will be answered at once.
func TestSlowRedisTakesFewConnections(t *testing.T) {
	withCalls(t, func(p *calls) {
		p.acquire(p.Context(), "first", 1, nil) // the server knows the script
		const late = time.Second
		p.store.rdb.(*redis.Client).AddHook(lateReplies(late))
		var flying, peak atomic.Int64
		for end := time.Now().Add(4 * late); time.Now().Before(end); <-time.After(time.Millisecond) {
			trip := p.store.Trip(p.Context(), p.store.Key("a"), 0, nil, func(Reply, error) {})
			if flight := trip.Start(); flight != nil {
				peak.Store(max(peak.Load(), flying.Add(1)))
				p.done.Go(func() {
					defer flying.Add(-1)
					flight.Fly()
				})
			}
		}
		// Each round of mostInFlight waits twice as long as the one before it.
		if most := int64(mostInFlight * (2 + bits.Len(uint(late/hangs)))); peak.Load() > most {
			p.Errorf("%d pipelines at once, want %d at most", peak.Load(), most)
		}
	})
}

// TestOutageCostsFewFlights: while Redis is silent, what waits costs no goroutine, the pipelines
// that are tried grow rarer, and what was given up leaves nothing.
func TestOutageCostsFewFlights(t *testing.T) {
	withCalls(t, func(p *calls) {
		p.acquire(p.Context(), "first", 1, nil)
		p.net.Inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.SwallowRequest, Times: -1})
		const trips, lasts = 20_000, 2 * time.Second
		var flights []*Flight
		var waiting []*Trip
		for i := range trips {
			st := p.store.Trip(p.Context(), p.store.Key(fmt.Sprint(i)), 0, []Op{{Verb: Acquire, ID: fmt.Sprint("s0.", i), Terms: terms(1)}}, func(Reply, error) {})
			if flight := st.Start(); flight != nil {
				flights = append(flights, flight)
				p.done.Go(flight.Fly)
			} else {
				waiting = append(waiting, st)
			}
			<-time.After(lasts / trips) // of the bubble
		}
		// Each round of mostInFlight waits twice as long as the one before it.
		most := mostInFlight * (2 + bits.Len(uint(lasts/hangs)))
		if n := len(flights); n > most || n < 2*mostInFlight {
			p.Errorf("%d flights in %v, want %d at most", n, lasts, most)
		}
		for _, st := range waiting {
			st.Drop()
		}
		pipe := p.store.pipe
		pipe.mu.Lock() // flights may still end
		defer pipe.mu.Unlock()
		if len(pipe.waiting) > 0 || pipe.dropped > 0 || slices.ContainsFunc(pipe.waiting[:cap(pipe.waiting)], func(st *Trip) bool { return st != nil }) {
			p.Errorf("%d trips are left, %d of them dropped", len(pipe.waiting), pipe.dropped)
		}
	})
}
