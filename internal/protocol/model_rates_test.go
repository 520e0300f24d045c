package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// The rates of the model. It knows each sum by the number of its time, and looks at all of them.

// meter is what counts for a rate.
type meter struct {
	Rate
	since int64 // us: a charge that is older is not in it

	grain   int64 // ms; of a window
	sums    map[int64]int
	pending int // what was counted in this call

	full   int64 // us; of a bucket
	lacked []lack

	aside int // what is set aside for those who are asked for a sign of life
}

// lack is how much a bucket lacked before a charge, in us, and when that was: us after since.
type lack struct{ at, n int64 }

// charged is what a lease has cost in a unit, which counts since a time (us).
type charged struct {
	unit  string
	n     int
	since int64
}

func (r *meter) per() int64 { return r.Per.Milliseconds() }

func (r *meter) fine() int64 { return max(r.per()/100, 1) }

// ends is when the n-th sum has left the window.
func (r *meter) ends(n int64) int64 { return (n+1)*r.grain + r.per() }

// times are the numbers of the sums that count, in order.
func (r *meter) times() (all []int64) {
	for n := range r.sums {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

func (r *meter) spent() (sum int) {
	for _, n := range r.sums {
		sum += n
	}
	return sum
}

// counts reports whether something counts, and until when.
func (r *meter) counts() (until int64, ok bool) {
	if r.Burst > 0 {
		return (r.full + 999) / 1000, r.full > 0
	}
	for n := range r.sums {
		until = max(until, r.ends(n))
	}
	return until, len(r.sums) > 0
}

// fade forgets what has left the window.
func (s *step) fade() {
	for _, r := range s.rates {
		r.pending = 0
		for n, sum := range r.sums {
			if sum == 0 || r.ends(n) <= s.now {
				delete(r.sums, n)
			}
		}
		if r.full <= s.now*1000 {
			r.full, r.lacked = 0, nil
		}
	}
}

func (r *meter) time(cost int) int64 { return int64(r.last(cost)) }

func (s *step) fill(r *meter, cost int) {
	if r.full <= s.us {
		r.full, r.lacked, r.since = s.us, nil, max(r.since, s.us)
	} else {
		r.note(lack{s.us - r.since, r.full - s.us})
	}
	r.full = min(r.full+r.time(cost), s.us+1_500_000_000_000_000)
}

// note keeps l, and of those before it those that were less.
func (r *meter) note(l lack) {
	last := int64(0)
	for _, was := range r.lacked {
		last = was.at
	}
	if l.at == last {
		return
	}
	l.at = max(l.at, last+1)
	r.lacked = append(slices.DeleteFunc(r.lacked, func(was lack) bool { return was.n >= l.n }), l)
	if len(r.lacked) > 8 {
		r.lacked[1].n = r.lacked[0].n
		r.lacked = r.lacked[1:]
	}
}

// back refunds at most so much time of a charge.
func (r *meter) back(time, since, now int64) {
	time = min(time, max(r.full-now, 0))
	for _, l := range r.lacked {
		if l.at > since-r.since {
			time = min(time, l.n)
		}
	}
	r.full -= time
	for i := range r.lacked {
		if r.lacked[i].at > since-r.since {
			r.lacked[i].n -= time
		}
	}
	for i := len(r.lacked) - 1; i > 0; i-- {
		if r.lacked[i-1].n >= r.lacked[i].n {
			r.lacked = slices.Delete(r.lacked, i-1, i)
		}
	}
}

// count charges a rate.
func (s *step) count(r *meter, cost int) {
	if r.Burst > 0 {
		s.fill(r, cost)
		return
	}
	if len(r.sums) == 0 {
		r.grain = r.fine()
	}
	n := s.now / r.grain
	for at := range r.sums {
		n = max(n, at) // the clock was set back
	}
	if cost > 0 {
		r.sums[n] += cost
		r.pending += cost
	}
}

// charge counts the grant of p.
func (s *step) charge(p *member, costs Costs) {
	p.charges = nil
	for _, r := range s.rates {
		s.count(r, costs.Of(r.Unit, p.weight))
	}
	for _, r := range s.rates {
		cost := costs.Of(r.Unit, p.weight)
		if !slices.ContainsFunc(p.charges, func(c charged) bool { return c.unit == r.Unit }) {
			p.charges = append(p.charges, charged{r.Unit, cost, s.present()})
		}
	}
}

// present is since when a charge of now counts.
func (s *step) present() int64 {
	since := s.us
	for _, r := range s.rates {
		since = max(since, r.since)
	}
	return since
}

// rest is how long the rates keep out what has such costs.
func (s *step) rest(costs Costs, weight int) (rest time.Duration) {
	for _, r := range s.rates {
		cost, until := costs.Of(r.Unit, weight)+r.aside, s.now
		if r.Burst > 0 {
			if opens := max(r.full, s.us) + r.time(cost) - r.time(r.Burst); opens > s.us {
				until = (opens + 999) / 1000
			}
		}
		over := r.spent() + cost - r.N
		for _, n := range r.times() {
			if r.Burst == 0 && over > 0 {
				over, until = over-r.sums[n], r.ends(n)
			}
		}
		rest = max(rest, milliseconds(until-s.now))
	}
	return rest
}

func (s *step) affords(costs Costs, weight int) bool {
	for _, r := range s.rates {
		if r.Burst == 0 && r.spent()+r.aside+costs.Of(r.Unit, weight) > r.N {
			return false
		}
	}
	return s.rest(costs, weight) == 0
}

// tooCostly returns a rate that never lets it in.
func (m *model) tooCostly(costs Costs, weight int) (Rate, bool) {
	for _, r := range m.rates {
		if costs.Of(r.Unit, weight) > r.Most() {
			return r.Rate, true
		}
	}
	return Rate{}, false
}

// settle corrects what a lease has cost.
func (s *step) settle(p *member, costs Costs) {
	for i := range p.charges {
		c := &p.charges[i]
		cost := c.n
		if costs == Nothing {
			cost = 0
		}
		for _, named := range costs.All() {
			if named.Unit == c.unit {
				cost = named.N
			}
		}
		if cost == c.n {
			continue
		}
		for _, r := range s.rates {
			if r.Unit == c.unit {
				s.correct(r, *c, cost)
			}
		}
		if s.better = true; cost > c.n {
			c.since = s.present()
		}
		c.n = cost
	}
}

// inRow is what a sum of the row is, without what this call has counted.
func (r *meter) inRow(n int64) int {
	if all := r.times(); n == all[len(all)-1] {
		return r.sums[n] - r.pending
	}
	return r.sums[n]
}

// rows are the numbers of the sums that are in the row, in order.
func (r *meter) rows() []int64 {
	return slices.DeleteFunc(r.times(), func(n int64) bool { return r.inRow(n) == 0 })
}

// takeBack takes so much of a charge out of its sum. Where the row was sorted since, or the clock was set
// back, that is a later one.
func (r *meter) takeBack(less int, c charged, now int64) {
	n := c.since / 1000 / r.grain
	for _, k := range r.times() {
		if r.ends(n) > now && k >= n && r.inRow(k) >= c.n {
			r.sums[k] -= less
			return
		}
	}
}

// correct corrects one rate: less counts no more, more counts whole from now.
func (s *step) correct(r *meter, c charged, cost int) {
	less := c.n
	if cost < c.n {
		less -= cost
	}
	switch {
	case c.since < r.since:
	case r.Burst > 0:
		r.back(int64(math.Floor(float64(less)*1e3*float64(r.per())/float64(r.N))), c.since, s.us)
	default:
		r.takeBack(less, c, s.now)
	}
	if cost > c.n {
		s.count(r, cost)
	}
}

// setRates declares another set. What was granted counts for the new window.
func (s *step) setRates(rates Rates) {
	if rates == s.set() {
		return
	}
	if len(s.rates) > 0 {
		s.changes++
	}
	s.weighed = -1
	var all []*meter
	for _, rate := range rates.All() {
		r := &meter{Rate: rate, since: max(s.us, s.last+1), sums: map[int64]int{}}
		if from := s.nearest(rate); from != nil {
			s.inherit(r, from)
		}
		all = append(all, r)
	}
	s.rates = all
}

// nearest is the rate of the same unit whose window is nearest.
func (m *model) nearest(rate Rate) (from *meter) {
	least := math.Inf(1)
	for _, r := range m.rates {
		a, b := float64(r.per()), float64(rate.Per.Milliseconds())
		if times := max(a, b) / min(a, b); r.Unit == rate.Unit && times < least {
			from, least = r, times
		}
	}
	return from
}

func (s *step) inherit(r, from *meter) {
	if r.Burst > 0 && from.Burst > 0 && r.N == from.N && r.Per == from.Per && (r.Burst == from.Burst || from.full-s.us <= r.time(r.Burst)) {
		r.full, r.lacked, r.since = from.full, from.lacked, from.since
		return
	}
	if r.Burst > 0 || from.Burst > 0 {
		spent := float64(from.spent())
		if from.Burst > 0 {
			spent = float64(max(from.full-s.us, 0)) * float64(from.N) / (1e3 * float64(from.per()))
		}
		switch {
		case r.Burst == 0:
			s.count(r, int(math.Ceil(spent)))
		case spent > 0:
			spent = min(spent, float64(r.Burst))
			r.full = s.us + int64(math.Ceil(spent*1e3*float64(r.per())/float64(r.N)))
		}
		return
	}
	r.since, r.grain = from.since, from.grain
	empty := from.spent() == from.pending // what counts is in no row yet
	if r.Per > from.Per {                 // what has left the shorter window is not in this one
		r.since = max(r.since, s.us)
		if !empty {
			r.since = max(from.since, from.rows()[0]*from.grain*1000)
		}
	}
	if empty {
		s.count(r, from.pending)
		return
	}
	r.pending = from.pending
	maps.Copy(r.sums, from.sums)
	if len(r.sums) > 0 && (r.grain > r.fine() || r.grain*390 < r.per()) {
		sums, grain := r.sums, r.grain
		r.sums, r.grain = map[int64]int{}, r.fine()
		for n, sum := range sums {
			r.sums[min((n+1)*grain-1, s.now)/r.grain] += sum
		}
	}
	for n := range r.sums {
		if r.ends(n) <= s.now {
			delete(r.sums, n)
		}
	}
}

// set is the set of the rates in force, which come sorted from JoinRates.
func (m *model) set() Rates {
	var all []Rate
	for _, r := range m.rates {
		all = append(all, r.Rate)
	}
	joined, err := joinInOrder(all)
	if err != nil {
		panic(err)
	}
	return joined
}

// only is the set in force with those of one unit in place of its own.
func only(set Rates, unit string, rates Rates) (Rates, bool) {
	var all []Rate
	for _, r := range set.All() {
		if r.Unit != unit {
			all = append(all, r)
		}
	}
	all = append(all, rates.All()...)
	joined, err := JoinRates(all...)
	return joined, err == nil && len(all) <= MostRates
}

// joinInOrder is JoinRates without its order.
func joinInOrder(all []Rate) (Rates, error) {
	text := Rates("")
	for i, r := range all {
		if i > 0 {
			text += ","
		}
		text += Rates(r.word())
	}
	_, err := JoinRates(all...)
	return text, err
}

// counting reports whether something counts for a rate.
func (m *model) counting() (until int64, ok bool) {
	for _, r := range m.rates {
		if at, counts := r.counts(); counts {
			until, ok = max(until, at), true
		}
	}
	return until, ok
}

// tally are the numbers of a rate.
func (r *meter) tally() tally {
	if r.Burst > 0 {
		var lacked []string
		for _, l := range r.lacked {
			lacked = append(lacked, fmt.Sprintf("%d:%d", l.at, l.n))
		}
		return tally{counts: r.full, lacks: cmp.Or(strings.Join(lacked, ","), noLacks), since: r.since}
	}
	t := tally{counts: int64(r.spent()), since: r.since}
	if times := r.times(); len(times) > 0 {
		t.fades = r.ends(times[0])
	}
	return t
}

// row is what is stored of it; empty: nothing.
func (r *meter) row() []int64 {
	times := r.times()
	if len(times) == 0 {
		return nil
	}
	first, last := times[0], times[len(times)-1]
	row := []int64{r.grain, first, last}
	for n := first; n <= last; n++ {
		row = append(row, int64(r.sums[n]))
	}
	return row
}
