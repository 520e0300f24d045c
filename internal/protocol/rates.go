package protocol

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of rates and costs; transition.lua has the same.
const (
	MostRates   = 4       // of a semaphore, and as many units in what a request costs
	MostUnit    = 16      // characters of a unit's name
	MostCost    = 1 << 30 // of a request, and of a rate in its window
	LeastWindow = 10 * time.Millisecond
	MostWindow  = 30 * 24 * time.Hour
	MostRefill  = 365 * 24 * time.Hour // in which an empty bucket is full again
)

// Rate is how much cost of one unit may be granted in any time of length Per; with Burst, how much
// a bucket of that size gets back in that time. Grants count when they are made, whatever becomes of
// their leases. Unit and Per are a rate's key.
type Rate struct {
	Unit  string // "": the one without a name
	N     int    // 0: there is no rate
	Per   time.Duration
	Burst int // 0: it is a window, and no bucket
}

// String implements fmt.Stringer: "60 in 1m0s", "90000 tokens in 1m0s", "2 api in 1s and a burst of 40".
func (r Rate) String() string {
	if r.N == 0 {
		return "no " + r.what() + "rate"
	}
	text := fmt.Sprintf("%d %sin %v", r.N, r.what(), r.Per)
	if r.Burst > 0 {
		text += fmt.Sprintf(" and a burst of %d", r.Burst)
	}
	return text
}

// what is the unit, and a space behind it.
func (r Rate) what() string {
	if r.Unit == "" {
		return ""
	}
	return r.Unit + " "
}

// Most returns the largest cost that the rate ever lets in.
func (r Rate) Most() int { return cmp.Or(r.Burst, r.N) }

// word is the rate as the script writes it: UNIT:N/PER, and +BURST for a bucket.
func (r Rate) word() string {
	text := r.Unit + ":" + strconv.Itoa(r.N) + "/" + millis(r.Per)
	if r.Burst > 0 {
		text += "+" + strconv.Itoa(r.Burst)
	}
	return text
}

// GoodUnit reports whether a unit may be called so: a letter, and letters, digits, _ and - behind it,
// all lower case, but not "none"; or "".
func GoodUnit(unit string) bool {
	for i, c := range []byte(unit) {
		letter := 'a' <= c && c <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '_' && c != '-') {
			return false
		}
	}
	return len(unit) <= MostUnit && unit != "none"
}

func (r Rate) check() error {
	switch {
	case !GoodUnit(r.Unit):
		return fmt.Errorf("unit %q is not a lower-case word of at most %d characters", r.Unit, MostUnit)
	case r.N < 1 || r.N > MostCost || r.Burst < 0 || r.Burst > MostCost:
		return fmt.Errorf("rate %v: numbers are from 1 to %d", r, MostCost)
	case r.Per < LeastWindow || r.Per > MostWindow || r.Per%time.Millisecond != 0:
		return fmt.Errorf("rate %v: windows are from %v to %v, in whole milliseconds", r, LeastWindow, MostWindow)
	case float64(r.Burst)*float64(r.Per)/float64(r.N) > float64(MostRefill):
		return fmt.Errorf("rate %v: an empty bucket must be full again within %v", r, MostRefill)
	}
	return nil
}

// Rates are up to MostRates rates, as the script writes them. Two that are equal are the same text.
// The zero value is none.
type Rates string

// JoinRates returns the set of some rates, of which no two have the same unit and window. Rates with
// N 0 are left out.
func JoinRates(all ...Rate) (Rates, error) {
	all = slices.DeleteFunc(slices.Clone(all), func(r Rate) bool { return r.N == 0 && r.Per == 0 })
	slices.SortFunc(all, func(a, b Rate) int {
		return cmp.Or(cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Per, b.Per))
	})
	var words []string
	for i, r := range all {
		if err := r.check(); err != nil {
			return "", err
		}
		if i > 0 && all[i-1].Unit == r.Unit && all[i-1].Per == r.Per {
			return "", fmt.Errorf("two rates of unit %q have a window of %v", r.Unit, r.Per)
		}
		words = append(words, r.word())
	}
	if len(words) > MostRates {
		return "", fmt.Errorf("%d rates are more than %d", len(words), MostRates)
	}
	return Rates(strings.Join(words, ",")), nil
}

// Text returns the rates for people; "none" if there are none.
func (s Rates) Text() string {
	var words []string
	for _, r := range s.All() {
		words = append(words, r.String())
	}
	return cmp.Or(strings.Join(words, ", "), "none")
}

// All returns the rates, by unit and window.
func (s Rates) All() (all []Rate) {
	if s == "" {
		return nil
	}
	for word := range strings.SplitSeq(string(s), ",") {
		if r, err := parseRate(word); err == nil {
			all = append(all, r)
		}
	}
	return all
}

// Charge reports whether a cost of a unit is charged to one of them.
func (s Rates) Charge(unit string) bool {
	return slices.ContainsFunc(s.All(), func(r Rate) bool { return r.Unit == unit })
}

var errRate = errors.New("is no rate")

// parseRate is the reverse of word.
func parseRate(word string) (r Rate, err error) {
	unit, rest, colon := strings.Cut(word, ":")
	n, rest, slash := strings.Cut(rest, "/")
	per, burst, plus := strings.Cut(rest, "+")
	ms, err := strconv.ParseInt(per, 10, 64)
	if !colon || !slash || err != nil || ms > MostWindow.Milliseconds() {
		return r, errRate
	}
	r.Unit, r.Per = unit, time.Duration(ms)*time.Millisecond
	if r.N, err = strconv.Atoi(n); err != nil {
		return r, errRate
	}
	if r.Burst, err = strconv.Atoi(cmp.Or(burst, "0")); err != nil || plus != (r.Burst > 0) {
		return r, errRate
	}
	if r.check() != nil || r.word() != word {
		return r, errRate
	}
	return r, nil
}

// parseRates reads a set as it is stored.
func parseRates(word string) (Rates, bool) {
	if word == none {
		return "", true
	}
	seen := map[Rate]bool{}
	for one := range strings.SplitSeq(word, ",") {
		r, err := parseRate(one)
		if key := (Rate{Unit: r.Unit, Per: r.Per}); err != nil || seen[key] {
			return "", false
		} else {
			seen[key] = true
		}
	}
	return Rates(word), len(seen) <= MostRates
}

// none stands for an empty set, or for no costs, on the wire.
const none = "-"

// encode returns the set as it is sent.
func (s Rates) encode() string { return cmp.Or(string(s), none) }

// Cost is what a request or a lease costs in one unit.
type Cost struct {
	Unit string
	N    int
}

// Costs are what a request costs in up to MostRates units, as the script writes them. In a unit that
// is not named it costs its weight. The zero value names none.
type Costs string

// Nothing is the Costs of a Release of what nobody has used: nothing in any unit.
const Nothing Costs = "0"

// JoinCosts returns the costs in some units, each named once.
func JoinCosts(all ...Cost) (Costs, error) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Cost) int { return cmp.Compare(a.Unit, b.Unit) })
	var words []string
	for i, c := range all {
		switch {
		case !GoodUnit(c.Unit):
			return "", fmt.Errorf("unit %q is not a lower-case word of at most %d characters", c.Unit, MostUnit)
		case c.N < 0 || c.N > MostCost:
			return "", fmt.Errorf("cost %d is outside 0 to %d", c.N, MostCost)
		case i > 0 && all[i-1].Unit == c.Unit:
			return "", fmt.Errorf("two costs have unit %q", c.Unit)
		}
		words = append(words, c.Unit+":"+strconv.Itoa(c.N))
	}
	if len(words) > MostRates {
		return "", fmt.Errorf("costs in %d units are more than %d", len(words), MostRates)
	}
	return Costs(strings.Join(words, ",")), nil
}

// All returns the costs, by unit.
func (c Costs) All() (all []Cost) {
	for word := range strings.SplitSeq(string(c), ",") {
		unit, n, ok := strings.Cut(word, ":")
		if cost, err := strconv.Atoi(n); ok && err == nil {
			all = append(all, Cost{unit, cost})
		}
	}
	return all
}

// Of returns what a request of this weight costs in a unit.
func (c Costs) Of(unit string, weight int) int {
	if c == Nothing {
		return 0
	}
	for _, one := range c.All() {
		if one.Unit == unit {
			return one.N
		}
	}
	return weight
}

// With returns c with the costs of others in place of its own of the same units.
func (c Costs) With(others Costs) (Costs, error) {
	if others == Nothing {
		return others, nil
	}
	all := others.All()
	for _, one := range c.All() {
		if !slices.ContainsFunc(all, func(o Cost) bool { return o.Unit == one.Unit }) {
			all = append(all, one)
		}
	}
	return JoinCosts(all...)
}

func (c Costs) encode() string { return cmp.Or(string(c), none) }

// Budget is a rate, and what of it is spent.
type Budget struct {
	Rate
	Spent int // more than the rate's Most after it was lowered, or when a lease was settled for more
}

// String implements fmt.Stringer: "12 of 60 spent in 1m0s". More than all of it may be spent: it was
// lowered, or a lease was settled for more than it had asked for.
func (b Budget) String() string {
	over := b.Spent > b.Most()
	switch {
	case b.N == 0:
		return b.Rate.String()
	case over && b.Burst > 0:
		return fmt.Sprintf("%d %sspent, more than the burst of %d, %d come back in %v", b.Spent, b.what(), b.Burst, b.N, b.Per)
	case over:
		return fmt.Sprintf("%d %sspent, more than the rate of %d in %v", b.Spent, b.what(), b.N, b.Per)
	case b.Burst > 0:
		return fmt.Sprintf("%d of a burst of %d %sspent, %d come back in %v", b.Spent, b.Burst, b.what(), b.N, b.Per)
	}
	return fmt.Sprintf("%d of %d %sspent in %v", b.Spent, b.N, b.what(), b.Per)
}

// noLacks are the lacks of a bucket that is full, or was before its last charge.
const noLacks = "-"

// tally is what the script keeps of a rate.
type tally struct {
	counts int64  // in a window; of a bucket: when it is full again (us)
	fades  int64  // when the first of that leaves the window (ms)
	lacks  string // of a bucket: what it lacked before some charges
	since  int64  // us: when it began to count; of a bucket: since when it was not full
}

// each is the time in us in which a bucket gets a cost of 1 back.
func (r Rate) each() float64 { return 1e3 * float64(r.Per.Milliseconds()) / float64(r.N) }

// budget returns what is spent at server time now (ms).
func (r Rate) budget(t tally, now int64) Budget {
	if r.Burst == 0 {
		return Budget{r, int(t.counts)}
	}
	return Budget{r, int(math.Ceil(float64(max(t.counts-now*1000, 0)) / r.each()))}
}

// Budgets returns the rates in force, by unit and window, and what of them is spent at server time
// now (ms).
func (s *State) Budgets(now int64) (all []Budget) {
	for i, r := range s.Rates.All() {
		all = append(all, r.budget(s.tallies[i], now))
	}
	return all
}

// Binding returns the rate that keeps out, at server time now (ms), what has this weight and these
// costs, and if there is none the first; false: there is no rate. Of several the one counts whose
// window is the longest.
func (s *State) Binding(now int64, weight int, costs Costs) (binds Budget, ok bool) {
	for i, b := range s.Budgets(now) {
		over := b.Keeps(weight, costs)
		if i == 0 || over && (!ok || b.Per > binds.Per) {
			binds = b
		}
		ok = ok || over
	}
	return binds, s.Rates != ""
}

// TooCostly returns a rate in force that never lets in what has this weight and these costs; false:
// there is none.
func (s *State) TooCostly(weight int, costs Costs) (Rate, bool) {
	for _, r := range s.Rates.All() {
		if costs.Of(r.Unit, weight) > r.Most() {
			return r, true
		}
	}
	return Rate{}, false
}

// Keeps reports whether the rate keeps out what has this weight and these costs.
func (b Budget) Keeps(weight int, costs Costs) bool {
	return b.N > 0 && b.Spent+costs.Of(b.Unit, weight) > b.Most()
}

// Spent returns what of a rate is spent at server time now (ms); 0 if the rate is not in force.
func (s *State) Spent(r Rate, now int64) int {
	for _, b := range s.Budgets(now) {
		if b.Rate == r {
			return b.Spent
		}
	}
	return 0
}

// Rest returns how long, at the least, the rates keep out what has this weight and these costs, from
// server time now (ms) on; 0: they do not. How long the rest of a window does, only look tells.
func (s *State) Rest(now int64, weight int, costs Costs) (rest time.Duration) {
	for i, b := range s.Budgets(now) {
		if !b.Keeps(weight, costs) {
			continue
		}
		until := s.tallies[i].fades // something has to leave
		if b.Burst > 0 {
			until = s.Refilled(i, costs.Of(b.Unit, weight))
		}
		rest = max(rest, time.Duration(max(until-now, 1))*time.Millisecond)
	}
	return rest
}

// Fade takes off what counts no more at server time now (ms): of each rate that is a window, in their
// order, so much has left it. It reports whether there was something.
func (s *State) Fade(now int64, left [MostRates]int) (faded bool) {
	for i, r := range s.Rates.All() {
		t := &s.tallies[i]
		switch {
		case r.Burst > 0 && t.counts > 0 && t.counts <= now*1000:
			t.counts, t.lacks, faded = 0, noLacks, true
		case r.Burst == 0 && left[i] > 0:
			if t.counts -= int64(left[i]); t.counts == 0 {
				t.fades = 0
			}
			faded = true
		}
	}
	return faded
}

// Refilled returns the server time (ms) at which the i-th rate, a bucket, lets in such a cost.
func (s *State) Refilled(i, cost int) int64 {
	r := s.Rates.All()[i]
	short := float64(s.tallies[i].counts) + r.last(cost) - r.last(r.Burst)
	return int64(math.Ceil(short / 1000))
}

// last is the time in us in which a bucket gets a cost back, rounded up. The script computes the same,
// in this order.
func (r Rate) last(cost int) float64 {
	return math.Ceil(float64(cost) * 1e3 * float64(r.Per.Milliseconds()) / float64(r.N))
}

// ParseCharges reads what a waiter asked for, or what a lease was charged: "-", or for each unit
// UNIT:N, and behind that "@" and since when it counts.
func ParseCharges(word string) (Costs, bool) {
	if word == none {
		return "", true
	}
	var all []Cost
	for one := range strings.SplitSeq(word, ",") {
		one, _, _ = strings.Cut(one, "@")
		unit, n, ok := strings.Cut(one, ":")
		cost, err := strconv.Atoi(n)
		if !ok || err != nil {
			return "", false
		}
		all = append(all, Cost{unit, cost})
	}
	costs, err := JoinCosts(all...)
	return costs, err == nil
}
