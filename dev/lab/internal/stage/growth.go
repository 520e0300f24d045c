package stage

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/berth-go/berth/internal/quantile"
)

// The least and the most acquires that are measured for each number of holders.
const leastPairs, mostPairs = 5, 2000

// holders lists the numbers of holders for which the cost is measured.
var holders = []int{10, 100, 1000, 10_000}

func (s *stage) runGrowth(ctx context.Context) (*Result, error) {
	r := s.result()
	r.Clients = s.Clients
	s.begin()
	for _, n := range holders {
		p, err := s.measure(ctx, n)
		if err != nil {
			return nil, err
		}
		r.Growth = append(r.Growth, p)
	}
	r.Seconds = s.now().Seconds()
	return r, nil
}

// measure measures acquires with n other holders.
func (s *stage) measure(ctx context.Context, n int) (Point, error) {
	s.rename("." + strconv.Itoa(n))
	s.Limit = n + 1
	crowded := s.env.Connect()
	defer crowded.Close()
	done, err := s.alg.Fill(ctx, s.setup(crowded, 0), n)
	if err != nil {
		return Point{}, err
	}
	defer done()
	if err := s.openWarm(ctx); err != nil {
		return Point{}, err
	}
	// The first acquires of any algorithm are slower.
	if _, err := s.pairs(ctx, s.env.Duration/time.Duration(8*len(holders)), leastPairs*20); err != nil {
		return Point{}, err
	}
	before := s.work(ctx)
	pairs, err := s.pairs(ctx, s.env.Duration/time.Duration(len(holders)), mostPairs)
	if err != nil {
		return Point{}, err
	}
	after := s.work(ctx)
	slices.Sort(pairs)
	p := Point{
		Holders: n, Pairs: len(pairs),
		P50US: float64(quantile.Of(pairs, 0.5).Nanoseconds()) / 1000,
	}
	if before != nil && after != nil {
		us := after.Since(*before).CPU * 1e6 / float64(len(pairs))
		p.ServerUS = &us
	}
	return p, nil
}

// pairs measures acquires, each with its release, of the last client.
func (s *stage) pairs(ctx context.Context, d time.Duration, most int) ([]time.Duration, error) {
	c := s.clients[len(s.clients)-1]
	end := s.now() + d
	var pairs []time.Duration
	for len(pairs) < leastPairs || s.now() < end && len(pairs) < most {
		from := monotonic()
		p, err := obtain(ctx, c, func() time.Duration { return s.env.Poll })
		if err != nil {
			return nil, err
		}
		if _, err := release(ctx, p); err != nil {
			return nil, err
		}
		pairs = append(pairs, monotonic()-from)
	}
	return pairs, nil
}
