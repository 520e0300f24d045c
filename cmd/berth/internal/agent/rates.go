package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/protocol"
)

// rateFields are those of a rate in a request.
var rateFields = []field[protocol.Rate]{
	{"unit", text(protocol.MostUnit, unit, func(r *protocol.Rate, s string) { r.Unit = s })},
	{"n", number(1, berth.MaxLimit, func(r *protocol.Rate, n int) { r.N = n })},
	{"per_ms", millis(leastPer, berth.MaxTTL, func(r *protocol.Rate, d time.Duration) { r.Per = d })},
	{"burst", number(0, berth.MaxLimit, func(r *protocol.Rate, n int) { r.Burst = n })},
}

// unit is the rule for a unit; "" is the one without a name.
func unit(s string, most int) string {
	if !protocol.GoodUnit(s) {
		return fmt.Sprintf("a unit is a lower-case word of at most %d characters", most)
	}
	return ""
}

// readRates reads the rates of a limit.
func readRates(l *limited, raw json.RawMessage) string {
	const want = `it must be a list of up to 4 rates, such as [{"unit":"tokens","n":90000,"per_ms":60000}]`
	var all []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil || len(all) == 0 {
		return want
	}
	var rates []protocol.Rate
	for i, one := range all {
		g, err := object(one)
		if err != nil {
			return want
		}
		r, wrong := protocol.Rate{}, wrongs{}
		fill(g, rateFields, &r, wrong, "")
		for name := range g.values {
			if !has(rateFields, name) {
				wrong.add(name, "a rate has no such field")
			}
		}
		for _, name := range []string{"n", "per_ms"} {
			if _, ok := g.values[name]; !ok {
				wrong.add(name, "it is missing")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(wrong)) {
			return fmt.Sprintf("[%d].%s: %s", i, name, wrong[name])
		}
		rates = append(rates, r)
	}
	if _, err := protocol.JoinRates(rates...); err != nil {
		return err.Error()
	}
	for _, r := range rates {
		o := berth.Rate(r.N, r.Per).Of(r.Unit)
		if r.Burst > 0 {
			o = o.Burst(r.Burst)
		}
		l.option(o)
	}
	return ""
}

// readCosts reads what a request costs of the rates of some units.
func readCosts(l *limited, raw json.RawMessage) string {
	costs, reason := parseCosts(raw, 1)
	for _, c := range costs {
		l.option(berth.Cost(c.N).Of(c.Unit))
	}
	return reason
}

// parseCosts reads an object of costs by unit. least is that of calls, the unit without a name.
func parseCosts(raw json.RawMessage, least int) (costs []protocol.Cost, reason string) {
	g, err := object(raw)
	if err != nil || len(g.values) == 0 {
		return nil, `it must be an object of costs by unit, such as {"tokens":1200}`
	}
	for _, name := range slices.Sorted(maps.Keys(g.values)) {
		c := protocol.Cost{Unit: name}
		from := least
		if name != "" {
			from = 0
		}
		reason = number(from, berth.MaxLimit, func(c *protocol.Cost, n int) { c.N = n })(&c, g.values[name])
		if g.twice[name] {
			reason = "it is given twice"
		}
		if reason != "" {
			return nil, fmt.Sprintf("%.40q: %s", name, reason)
		}
		costs = append(costs, c)
	}
	if _, err := protocol.JoinCosts(costs...); err != nil {
		return nil, err.Error()
	}
	return costs, ""
}
