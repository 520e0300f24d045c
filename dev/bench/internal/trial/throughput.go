package trial

import (
	"context"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/internal/quantile"
)

// turn is how long a single goroutine works at a time. The kernel runs client and server
// now on one CPU and now on two, where a round trip takes three times as long. Many short
// turns meet both states, a few long ones may not.
func turn(s Scale) time.Duration { return s.Slice / 3 }

func throughput() []*Trial {
	slice := func(s Scale) time.Duration { return s.Slice }
	workers := func(s Scale) []Case { return cases(s.Workers) }
	paired := func(p *peer.Peer, _ Case) bool {
		return p.Key != peer.PublishKey && p.Key != peer.TokensKey && p.Kind != peer.Rate
	}
	return []*Trial{
		{Scenario: scenario.Pair, Slices: 12, Cases: only("1"), Takes: paired, Length: turn, Open: openPair},
		{Scenario: scenario.Hot, Slices: 1, Cases: workers, Takes: paired, Length: slice, Open: openRate(scenario.Hot)},
		{Scenario: scenario.Spread, Slices: 1, Cases: workers, Takes: paired, Length: slice, Open: openRate(scenario.Spread)},
		{
			Scenario: scenario.CPU, Slices: 1, Takes: paired, Length: slice, Open: openCPU,
			Cases: func(s Scale) []Case {
				most := slices.Max(s.Workers)
				return []Case{{"alone", 1}, {"spread", most}, {"batched", most}}
			},
		},
	}
}

func openPair(ctx context.Context, e *Env, _ Case, p *peer.Peer) (*Entrant, error) {
	return e.drive(ctx, p, e.shape(scenario.Pair), func(ctx context.Context, d peer.Driver) ([]Figure, error) {
		out, err := d.Spin(ctx, peer.Load{For: turn(e.Scale), Times: true})
		if err != nil {
			return nil, err
		}
		// The time from one request to the next, because a pair includes the release.
		took := make([]time.Duration, 0, len(out.Beliefs))
		for i, b := range out.Beliefs {
			end := out.Took
			if i+1 < len(out.Beliefs) {
				end = out.Beliefs[i+1].Asked
			}
			took = append(took, end-b.Asked)
		}
		return quantiles(micros(took)), nil
	})
}

// quantiles returns the figures of latencies.
func quantiles(us []float64) []Figure {
	return []Figure{
		{Metric: "p50-µs", Value: quantile.Of(us, 0.5)},
		{Metric: "p99-µs", Value: quantile.Of(us, 0.99)},
	}
}

func openRate(of scenario.Scenario) func(context.Context, *Env, Case, *peer.Peer) (*Entrant, error) {
	return func(ctx context.Context, e *Env, c Case, p *peer.Peer) (*Entrant, error) {
		s := e.shape(of)
		s.Workers = c.N
		return e.drive(ctx, p, s, func(ctx context.Context, d peer.Driver) ([]Figure, error) {
			out, err := d.Spin(ctx, peer.Load{For: e.Scale.Slice})
			if err != nil {
				return nil, err
			}
			return []Figure{{Metric: "pairs/s", Value: out.PerSecond()}}, nil
		})
	}
}

func openCPU(ctx context.Context, e *Env, c Case, p *peer.Peer) (*Entrant, error) {
	s := e.shape(scenario.CPU)
	s.Workers, s.Each = c.N, c.Key == "spread"
	return e.drive(ctx, p, s, func(ctx context.Context, d peer.Driver) ([]Figure, error) {
		out, used, err := e.spin(ctx, d, peer.Load{For: e.Scale.Slice})
		if err != nil {
			return nil, err
		}
		sent, n := used.Sent(p.Sent), float64(out.Pairs)
		return []Figure{
			{Metric: "cpu-µs", Value: used.CPU * 1e6 / n},
			{Metric: "server-µs", Value: sent.Usec / n},
			{Metric: "commands", Value: sent.Calls / n},
		}, nil
	})
}
