package trial

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/bench/internal/peer"
	"github.com/berth-go/berth/dev/internal/scenario"
	"github.com/berth-go/berth/internal/quantile"
)

// settled is when the first burst is over, which all but the smooth contestants make.
const settled = 500 * time.Millisecond

func rate() *Trial {
	return &Trial{
		Scenario: scenario.Rated, Slices: 1, Open: openRated,
		Cases:  func(Scale) []Case { return []Case{{"100", scenario.Rated.Rate}} },
		Length: func(s Scale) time.Duration { return s.Flow + settled },
		Takes:  func(p *peer.Peer, _ Case) bool { return p.Rater != nil },
	}
}

func openRated(_ context.Context, e *Env, c Case, p *peer.Peer) (*Entrant, error) {
	return &Entrant{Close: func() {}, Slice: func(ctx context.Context) ([]Figure, error) {
		f := peer.Flow{Name: e.name(scenario.Rated), Clients: scenario.Rated.Clients, Workers: scenario.Rated.Workers, Rate: c.N}
		r, err := p.Rater(ctx, e.URL, e.Prefix, f) // a new one each time, because the last has spent of it
		if err != nil {
			return nil, err
		}
		defer r.Close()
		var out *peer.Flowed
		used, err := e.measured(ctx, func() (err error) {
			out, err = r.Run(ctx, e.Scale.Flow+settled)
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(out.Grants) == 0 {
			return nil, errors.New("nothing was let through")
		}
		us := micros(out.Waits)
		return []Figure{
			{Metric: "grants/s", Value: steady(out.Grants, e.Scale.Flow)},
			{Metric: "over", Value: float64(max(busiest(out.Grants, time.Second)-c.N, 0))},
			{Metric: "commands", Value: used.Sent(p.Sent).Calls / float64(len(out.Grants))},
			{Metric: "wait-p50-µs", Value: quantile.Of(us, 0.5)},
			{Metric: "wait-p99-µs", Value: quantile.Of(us, 0.99)},
			{Metric: "jain", Value: jain(out.Each)},
		}, nil
	}}, nil
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
