package worker

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// slow makes everything from the server come late for a while, by 50 ms to 5 s, which changes.
func (p *process) slow(ctx context.Context, between func(a, b int) time.Duration) {
	defer p.net.Latency(0)
	for range 3 {
		p.net.Latency(between(50, 500) * time.Duration(between(1, 11).Milliseconds()))
		pause(ctx, between(200, 2000))
	}
}

// compute takes the CPUs from everything else in this process for d.
func compute(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			for sum := 0; ctx.Err() == nil; {
				for i := range 100_000 {
					sum += i
				}
			}
		})
	}
	all.Wait()
}

// trouble makes the process's network fail, and its CPUs scarce, until ctx ends.
func (p *process) trouble(ctx context.Context) {
	rng := p.rand(0)
	between := func(a, b int) time.Duration { return time.Duration(a+rng.IntN(b-a)) * time.Millisecond }
	kinds := []struct {
		name  string
		fault redistest.Fault
		lasts time.Duration // delay of what the fault holds up
		match func(redistest.Command) bool
		most  int // most strikes
	}{
		{"slow reply", redistest.DelayReply, 150 * time.Millisecond, redistest.IsScript, 3},
		{"late requests", redistest.Delay, 200 * time.Millisecond, redistest.IsScript, 3},
		{"later requests", redistest.Delay, 400 * time.Millisecond, redistest.IsScript, 3},
		// Its repetition arrives first, and may be refused before the first copy arrives.
		{"late acquire", redistest.Delay, 400 * time.Millisecond, testenv.Carries("A"), 1},
		{"swallowed reply", redistest.SwallowReply, 0, redistest.IsScript, 3},
		{"swallowed reply, closed", redistest.SwallowReplyAndClose, 0, redistest.IsScript, 3},
		{"half-open", redistest.SwallowRequest, 0, redistest.IsScript, 3},
		{"reset", redistest.Reset, 0, redistest.IsScript, 3},
		{"doubled request", redistest.Duplicate, 0, redistest.IsScript, 3},
		{"lost message", redistest.DropMessage, 0, testenv.IsMessage, 3},
		{"late message", redistest.DelayMessage, 300 * time.Millisecond, testenv.IsMessage, 3},
	}
	inject := func(rule redistest.Rule, lasts time.Duration) {
		i := p.net.Inject(rule)
		pause(ctx, lasts)
		i.Stop()
		i.Release()
	}
	for ctx.Err() == nil {
		pause(ctx, between(20, 250))
		var what string
		from := history.Now()
		switch n := rng.IntN(40); {
		case n == 0:
			what = "network down"
			p.net.Down()
			pause(ctx, between(50, 2000))
			p.net.Up()
		case n < 3:
			what = "connections cut"
			p.net.CutAll()
		case n < 5:
			what = "slow link"
			p.slow(ctx, between)
		case n < 7:
			what = "busy CPUs"
			compute(ctx, between(50, 800))
		case n < 15:
			what = "slow replies"
			inject(redistest.Rule{Match: redistest.IsScript, Fault: redistest.DelayReply, Times: -1}, between(20, 150))
		default:
			k := kinds[rng.IntN(len(kinds))]
			what = k.name
			rule := redistest.Rule{Match: k.match, Fault: k.fault, Times: 1 + rng.IntN(k.most)}
			inject(rule, between(20, 30)+k.lasts*time.Duration(rng.IntN(100))/100)
		}
		p.out.Write(history.Event{At: from, Until: history.Now(), Kind: history.Fault, Text: what})
	}
}

// watch records when the process stood still because the machine is busy. What it should have
// done meanwhile is not judged by the clock.
func (p *process) watch(ctx context.Context) {
	for last := history.Now(); ctx.Err() == nil; {
		pause(ctx, history.Late/5)
		now := history.Now()
		if now.Sub(last) > history.Late {
			p.out.Write(history.Event{At: last, Until: now, Kind: history.Fault, Text: history.StoodStill})
		}
		last = now
	}
}

// connecting is how many answers a client waits for that has to connect for a plain command.
const connecting = 3

// measure records how long plain commands take on the network of a seat, with a client of its own,
// until ctx ends. What is slow for them, too, is the machine. That one is under way is recorded
// before it is sent: its process may be killed before it is answered.
func (p *process) measure(ctx context.Context, opts *redis.Options) {
	var connected atomic.Bool
	dial := opts.Dialer
	opts.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		connected.Store(true)
		return dial(ctx, network, addr)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	for ctx.Err() == nil {
		sent := history.Now()
		p.out.Write(history.Event{At: sent, Kind: history.Ping, Answers: connecting})
		connected.Store(false)
		_ = rdb.Ping(ctx).Err()
		answers := 1
		if connected.Load() {
			answers = connecting
		}
		p.out.Write(history.Event{At: sent, Until: history.Now(), Kind: history.Ping, Answers: answers})
		pause(ctx, history.Late/5)
	}
}
