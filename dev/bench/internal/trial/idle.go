package trial

import (
	"context"
	"strconv"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/internal/measure"
	"github.com/berth-go/berth/dev/internal/scenario"
)

func memory() *Trial {
	return &Trial{
		Scenario: scenario.Memory, Slices: 1, Most: 1, Open: brief(memorySlice),
		Cases:  func(s Scale) []Case { return cases([]int{s.Memory}) },
		Length: func(s Scale) time.Duration { return s.Idle + time.Duration(s.Memory)*200*time.Microsecond },
		Takes:  among(peer.BerthKey),
	}
}

func memorySlice(ctx context.Context, e *Env, c Case, p *peer.Peer) ([]Figure, error) {
	before, err := measure.Ask(ctx, e.Redis)
	if err != nil {
		return nil, err
	}
	taken, line, err := e.line(ctx, scenario.Memory, c.N, false)
	if err != nil {
		return nil, err
	}
	defer func() { line.Close(); taken() }()
	if err := measure.Pause(ctx, time.Second); err != nil { // until the cost of starting is over
		return nil, err
	}
	idle, err := e.measured(ctx, func() error { return measure.Pause(ctx, e.Scale.Idle) })
	if err != nil {
		return nil, err
	}
	state, err := line.State(ctx)
	if err != nil {
		return nil, err
	}
	sent := idle.Sent(p.Sent)
	after, err := measure.Ask(ctx, e.Redis)
	if err != nil {
		return nil, err
	}
	seconds := e.Scale.Idle.Seconds()
	return []Figure{
		{Metric: "client-bytes", Value: state.Heap + state.Stack},
		{Metric: "heap-bytes", Value: state.Heap},
		{Metric: "server-bytes", Value: after.Since(before).Memory / float64(c.N)},
		{Metric: "calls/s", Value: sent.Calls / seconds},
		{Metric: "core-%", Value: 100 * idle.CPU / seconds},
	}, nil
}

func renewals() *Trial {
	return &Trial{
		Scenario: scenario.Renewals, Slices: 1, Most: 1, Open: brief(renewalsSlice),
		Cases:  func(s Scale) []Case { return []Case{{"one-semaphore", s.Leases}, {"a-semaphore-each", s.Leases}} },
		Length: func(s Scale) time.Duration { return s.Watch + s.LeaseTTL/6 + 2*time.Second },
		Takes:  among(peer.BerthKey),
	}
}

func renewalsSlice(ctx context.Context, e *Env, c Case, p *peer.Peer) ([]Figure, error) {
	quiet := time.Second
	nothing, err := e.measured(ctx, func() error { return measure.Pause(ctx, quiet) })
	if err != nil {
		return nil, err
	}
	name := e.name(scenario.Renewals)
	release, err := e.lease(ctx, c.N, func(cl *berth.Client, i int) (*berth.Semaphore, error) {
		if c.Key == "one-semaphore" {
			return cl.Semaphore(name, c.N, berth.TTL(e.Scale.LeaseTTL))
		}
		return cl.Semaphore(name+"-"+strconv.Itoa(i), 1, berth.TTL(e.Scale.LeaseTTL))
	})
	if err != nil {
		return nil, err
	}
	defer release()
	// Leases that were acquired together are renewed together. The watch begins and
	// ends in the middle between two renewals.
	if err := measure.Pause(ctx, e.Scale.LeaseTTL/6); err != nil {
		return nil, err
	}
	used, err := e.measured(ctx, func() error { return measure.Pause(ctx, e.Scale.Watch) })
	if err != nil {
		return nil, err
	}
	sent, seconds := used.Sent(p.Sent), e.Scale.Watch.Seconds()
	scale := e.Scale.LeaseTTL.Seconds() / berth.DefaultTTL.Seconds()
	share := used.CPU/seconds - nothing.CPU/quiet.Seconds()
	return []Figure{
		{Metric: "core-%", Value: 100 * max(0, share) * scale},
		{Metric: "script-%", Value: 100 * sent.Usec / 1e6 / seconds * scale},
		{Metric: "calls/s", Value: sent.Calls / seconds * scale},
	}, nil
}
