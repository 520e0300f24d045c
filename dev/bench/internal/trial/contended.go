package trial

import (
	"context"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/internal/judge"
	"github.com/berth-go/berth/internal/quantile"
)

// slack is the time within which the order of two requests cannot be told, because requests
// and answers are under way.
const slack = 5 * time.Millisecond

// contention has clients that several goroutines share, as in a program.
var contention = scenario.Contended(8, time.Millisecond)

func contended() *Trial {
	return &Trial{
		Scenario: contention, Slices: 1, Open: openContended,
		Cases:  func(Scale) []Case { return []Case{{"5", contention.Limit}, {"1", 1}} },
		Length: func(s Scale) time.Duration { return s.Contended },
		Takes: func(p *peer.Peer, c Case) bool {
			return p.Queues && (c.N == 1 || p.Kind != peer.Lock)
		},
		Figures: "With 1 permit, too, for the sake of the locks. Permits are held by a timer of the kernel on Linux, because Go's are late where " +
			"little else wakes the process; npm's by node's timers. \"held µs\" is what came of it. Waits are those of requests that got a permit. " +
			"\"commands\" are those sent, for each acquire. \"overtaken %\": somebody called acquire more than 5 ms later and had the permit more than " +
			"5 ms earlier, by the clock of the process in which all clients are. \"most held\" is how many believed to hold a permit at once.",
	}
}

func openContended(ctx context.Context, e *Env, c Case, p *peer.Peer) (*Entrant, error) {
	s := e.shape(contention)
	s.Limit = c.N
	return e.drive(ctx, p, s, func(ctx context.Context, d peer.Driver) ([]Figure, error) {
		out, used, err := e.spin(ctx, d, peer.Load{For: e.Scale.Contended, Hold: contention.Hold, Times: true, GoTimers: e.Scale.GoTimers})
		if err != nil {
			return nil, err
		}
		sent, n := used.Sent(p.Sent), float64(out.Pairs)
		var held time.Duration
		for _, b := range out.Beliefs {
			held += b.End - b.Start
		}
		us := micros(judge.Waits(out.Beliefs))
		return []Figure{
			{Metric: "acquires/s", Value: out.PerSecond()},
			{Metric: "commands", Value: sent.Calls / n},
			{Metric: "wait-p50-µs", Value: quantile.Of(us, 0.5)},
			{Metric: "wait-p99-µs", Value: quantile.Of(us, 0.99)},
			{Metric: "held-µs", Value: float64(held.Microseconds()) / n},
			{Metric: "jain", Value: jain(out.Each)},
			{Metric: "overtaken-%", Value: 100 * float64(overtaken(out.Beliefs)) / n},
			{Metric: "most-held", Value: float64(judge.Limit(out.Beliefs, c.N).Held)},
		}, nil
	})
}

// jain returns Jain's index of fairness, from 1/n (one has everything) to 1 (all shares
// are equal). It is 1 if all shares are 0.
func jain(shares []int) float64 {
	var sum, squares float64
	for _, s := range shares {
		sum += float64(s)
		squares += float64(s) * float64(s)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// overtaken counts the permits that a later request overtook: a request that was made more than
// slack later and got its permit more than slack earlier.
func overtaken(beliefs []judge.Request) int {
	seen := slices.Clone(beliefs)
	for i := range seen {
		seen[i].Answered, seen[i].Called = seen[i].Asked+slack, seen[i].Start-slack
	}
	return judge.Overtakings(seen).Overtaken
}

func handoff() *Trial {
	return &Trial{
		Scenario: scenario.Handoff, Slices: 8, Cases: only("3ms"),
		Length: handoffTime,
		Takes:  func(p *peer.Peer, _ Case) bool { return p.Queues || p.Key == peer.PublishKey },
		Open: func(ctx context.Context, e *Env, _ Case, p *peer.Peer) (*Entrant, error) {
			return e.drive(ctx, p, e.shape(scenario.Handoff), func(ctx context.Context, d peer.Driver) ([]Figure, error) {
				took, err := d.Pass(ctx, e.Scale.Handoffs, scenario.Handoff.Gap, handoffTime(e.Scale))
				if err != nil {
					return nil, err
				}
				return quantiles(micros(took)), nil
			})
		},
	}
}

// handoffTime is long enough for the hand-offs of contestants that do not poll.
func handoffTime(s Scale) time.Duration {
	return time.Duration(s.Handoffs) * scenario.Handoff.Gap * 4 / 3
}
