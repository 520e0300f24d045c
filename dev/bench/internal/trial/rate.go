package trial

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/internal/judge"
	"github.com/berth-go/berth/internal/quantile"
)

// settled is when the first burst is over, which all but the smooth contestants make.
const settled = 500 * time.Millisecond

func rate() *Trial {
	return &Trial{
		Scenario: scenario.Rated, Slices: 1, Open: brief(rateSlice),
		Cases: func(Scale) []Case {
			n := scenario.Rated.Rate
			return []Case{{"100", n}, {estimates, n}, {settles, n}, {many, n}}
		},
		Length: func(s Scale) time.Duration { return s.Flow + settled },
		Takes: func(p *peer.Peer, c Case) bool {
			return p.Key == peer.BerthKey || p.Kind == peer.Rate && c.Key == "100"
		},
	}
}

// The cases of berth alone.
const (
	estimates = "estimates"
	settles   = "settled"
	many      = "100-clients"
)

func rateSlice(ctx context.Context, e *Env, c Case, p *peer.Peer) ([]Figure, error) {
	var mu sync.Mutex
	var grants []peer.Grant
	s := e.shape(scenario.Rated)
	switch c.Key {
	case estimates, settles:
		s.Ask, s.Settle = 2, c.Key == settles
	case many:
		s.Clients, s.Workers = 100, 100
	}
	s.Rate, s.Granted = c.N, func(g peer.Grant) {
		mu.Lock()
		defer mu.Unlock()
		grants = append(grants, g)
	}
	d, err := p.Drive(ctx, e.URL, e.Prefix, s)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	out, used, err := e.spin(ctx, d, peer.Load{For: e.Scale.Flow + settled, Times: true})
	if err != nil {
		return nil, err
	}
	us := micros(judge.Waits(out.Beliefs))
	return []Figure{
		{Metric: "grants/s", Value: steady(grants, e.Scale.Flow)},
		{Metric: "over", Value: float64(max(busiest(grants, time.Second)-c.N, 0))},
		{Metric: "commands", Value: used.Sent(p.Sent).Calls / float64(out.Pairs)},
		{Metric: "wait-p50-µs", Value: quantile.Of(us, 0.5)},
		{Metric: "wait-p99-µs", Value: quantile.Of(us, 0.99)},
		{Metric: "jain", Value: jain(out.Each)},
	}, nil
}

// steady returns the grants in a second from settled on, for a while.
func steady(grants []peer.Grant, most time.Duration) float64 {
	first := slices.MinFunc(grants, func(a, b peer.Grant) int { return cmp.Compare(a.To, b.To) }).To
	n := 0
	for _, g := range grants {
		if at := g.To - first; at >= settled && at < settled+most {
			n++
		}
	}
	return float64(n) / most.Seconds()
}

// busiest returns the most grants that lie in any window of a length, from its beginning up to but
// not including its end.
func busiest(grants []peer.Grant, window time.Duration) (most int) {
	sorted := slices.SortedFunc(slices.Values(grants), func(a, b peer.Grant) int { return cmp.Compare(a.From, b.From) })
	for i, first := range sorted {
		n := 0
		for _, g := range sorted[i:] {
			if g.From >= first.From+window {
				break
			}
			if g.To < first.From+window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
