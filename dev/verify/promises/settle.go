package promises

import (
	"math"
	"slices"
	"time"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/protocol"
)

// settlements checks of R4 that a lease cannot be settled when its holder has been told that it is over.
func (v *Verdict) settlements(name string, ops []*Op) {
	for _, o := range ops {
		over := min(o.Released.Returned, o.Lost)
		for _, s := range o.Settled {
			v.Settled++
			if s.Accepted && s.At > over {
				v.add("R4", name, s.At, []*Op{o}, "it was settled %v after its end", s.At.Sub(over))
			}
		}
	}
}

// charge is what a lease has cost in one unit: first what was asked for, and then what its holder has
// said, if it could.
type charge struct {
	*Op

	says []says
	done history.Time // when what was said last surely counted; Never
}

type says struct {
	at history.Time
	n  int
}

func (o *Op) charge(unit string) charge {
	c := charge{Op: o, says: []says{{o.Granted, o.Costs.Of(unit, o.Weight)}}, done: history.Never}
	for _, s := range o.Settled {
		costs := s.Costs.All()
		i := slices.IndexFunc(costs, func(one protocol.Cost) bool { return one.Unit == unit })
		if i >= 0 && !s.Refused && s.At <= o.Released.Returned {
			c.says = append(c.says, says{s.At, costs[i].N})
		}
	}
	if o.Released.Verb == history.Release && o.Released.Outcome == history.OK {
		c.done = o.Released.Returned
	}
	return c
}

// least is the least that the lease counts for at the moment at, in the window that begins at from. Its
// grant is inside the window, or was before it. What was said may have reached the server, or, until it
// surely has, not; more than before counts from then on.
func (c charge) least(inside bool, from, at history.Time, clock Clock) int {
	least, most, last := math.MaxInt, 0, len(c.says)-1
	for i, s := range c.says {
		said := i == 0 || !clock.Known || s.at <= at.Add(clock.Tolerance)
		over := i < last && clock.Known && c.done <= at.Add(-clock.Tolerance)
		if said && !over {
			n := 0
			if inside || clock.Known && s.n > most && s.at > from.Add(clock.Tolerance) {
				n = s.n
			}
			least = min(least, n)
		}
		most = max(most, s.n)
	}
	return least
}

// pour is what is taken out of a bucket, or with a by below 0 comes back, by the server's clock.
type pour struct {
	at time.Duration
	by float64
	of *Op // that is granted; nil: it is settled
}

// spilt is how much more than a bucket has may seem to be granted, because tokens that are given out at
// once are some microseconds apart.
const spilt = 0.05

// bucket checks R1b: of a bucket that is full at first, and gets N back in Per, nothing is taken that it
// does not have. leases are in the order of their tokens.
func (v *Verdict) bucket(name string, is protocol.Rate, leases []*Op, clock Clock) {
	var pours []pour
	for _, o := range leases {
		pours = append(pours, o.charge(is.Unit).pours(is, clock)...)
	}
	slices.SortStableFunc(pours, func(a, b pour) int { return int(a.at - b.at) })
	lacks, last, taken := 0.0, time.Duration(0), []*Op(nil)
	for _, p := range pours {
		lacks -= refill(is, p.at-last)
		if last = p.at; lacks <= 0 {
			lacks, taken = 0, nil
		}
		lacks = max(0, lacks+p.by)
		if p.of == nil {
			continue
		}
		taken = append(taken, p.of)
		v.Pours++
		v.Fullest = max(v.Fullest, lacks/float64(is.Burst))
		if lacks > float64(is.Burst)+spilt {
			v.add("R1b", name, p.of.Returned, taken, "with it a bucket lacks %.2f, which is of %v", lacks, is)
		}
	}
}

// refill is what a bucket gets back in a time.
func refill(is protocol.Rate, d time.Duration) float64 {
	return float64(is.N) * float64(d) / float64(is.Per)
}

// pours are those of a lease that make a bucket lack least: less comes back when it is said, although a
// bucket may get back no more than it would have kept, and of what it has cost more is left what is left
// if it counted from when it was said.
func (c charge) pours(is protocol.Rate, clock Clock) []pour {
	token, now := time.Duration(c.Token)*time.Microsecond, c.says[0].n
	if !clock.Known {
		for _, s := range c.says {
			now = min(now, s.n)
		}
		return []pour{{token, float64(now), c.Op}}
	}
	all := []pour{{token, float64(now), c.Op}}
	for _, s := range c.says {
		if s.n < now {
			all = append(all, pour{token + max(s.at.Sub(c.Granted)-clock.Tolerance, 0), float64(s.n - now), nil})
			now = s.n
		}
	}
	if len(c.says) == 1 || len(all) > 1 || c.done == history.Never {
		return all
	}
	more := float64(c.says[len(c.says)-1].n-now) - refill(is, c.done.Sub(c.says[1].at)+clock.Tolerance)
	return append(all, pour{token + c.done.Sub(c.Granted) + clock.Tolerance, max(0, more), nil})
}
