package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/rules"
)

const (
	// leastBeat bounds beat_ms: a program that must write more often would do little else.
	leastBeat = 100 * time.Millisecond
	// leastPer is the shortest window of a rate.
	leastPer = 10 * time.Millisecond
	// mostWrong is how many wrong fields an answer names.
	mostWrong = 20
	// mostLimits is how many limits one hold can have.
	mostLimits = 8
)

// request is what a client asks for.
type request struct {
	limits  []limited // they are taken in this order
	several bool      // the client has sent a list of them
	client
	wait    *time.Duration // nil: for as long as the connection lasts
	early   bool           // it wants to know at once that wait is too short
	beat    time.Duration  // 0: it need not write
	options []berth.AcquireOption
}

// limited is one limit, and what is to be taken of it.
type limited struct {
	name    string
	limit   int
	rate    int           // 0: it declares none
	per     time.Duration // of the rate
	tenant  string        // "": it is nobody's
	share   int           // of the tenant; 0: it says none
	cost    int           // 0: it says none
	options []berth.AcquireOption
}

// limitFields are the terms of one limit, and holdFields those of the whole hold. Any other is
// refused.
var (
	limitFields = []field[limited]{
		{"name", text(berth.MaxName, rules.Name, func(l *limited, s string) { l.name = s })},
		{"limit", number(0, berth.MaxLimit, func(l *limited, n int) { l.limit = n })},
		{"rate", number(1, berth.MaxLimit, func(l *limited, n int) { l.rate = n })},
		{"per_ms", millis(leastPer, berth.MaxTTL, func(l *limited, d time.Duration) { l.per = d })},
		{"tenant", text(berth.MaxTenant, rules.Key, func(l *limited, s string) { l.tenant = s })},
		{"share", number(1, berth.MaxShare, func(l *limited, n int) { l.share = n })},
		{"cost", number(1, berth.MaxLimit, func(l *limited, n int) { l.cost = n })},
		{"rates", readRates},
		{"costs", readCosts},
		{"weight", number(1, berth.MaxLimit, func(l *limited, n int) { l.option(berth.Weight(n)) })},
		{"queue_limit", number(0, berth.MaxLimit, func(l *limited, n int) { l.option(berth.QueueLimit(n)) })},
	}
	holdFields = []field[request]{
		{"ttl_ms", millis(berth.MinTTL, berth.MaxTTL, func(r *request, d time.Duration) { r.option(berth.TTL(d)) })},
		{"max_hold_ms", millis(berth.MinTTL, berth.MaxTTL, func(r *request, d time.Duration) { r.option(berth.MaxHold(d)) })},
		{"head_start_ms", millis(0, berth.MaxTTL, func(r *request, d time.Duration) { r.option(berth.HeadStart(d)) })},
		{"wait_ms", millis(0, berth.MaxTTL, func(r *request, d time.Duration) { r.wait = &d })},
		{"fail_early", flag(func(r *request, yes bool) { r.early = yes })},
		{"beat_ms", millis(leastBeat, berth.MaxTTL, func(r *request, d time.Duration) { r.beat = d })},
		{"label", text(berth.MaxLabel, rules.Text, func(r *request, s string) { r.label = s })},
		{"pid", number(1, math.MaxInt32, func(r *request, n int) { r.pid = n })},
	}
)

func (l *limited) option(o berth.AcquireOption) { l.options = append(l.options, o) }
func (r *request) option(o berth.AcquireOption) { r.options = append(r.options, o) }

// parse reads a request. The refusal names each field that is wrong.
func parse(body []byte) (*request, *refusal) {
	given, err := object(body)
	if err != nil {
		return nil, invalid(err.Error(), nil)
	}
	r, wrong := &request{}, wrongs{}
	fill(given, holdFields, r, wrong, "")
	switch {
	case r.early && r.wait == nil:
		wrong.add("wait_ms", "it is missing: with fail_early a request is refused that would wait for longer than that")
	case r.early:
		r.option(berth.FailEarly())
	}
	all, several := given.values[allField]
	switch {
	case several && given.twice[allField]:
		wrong.add(allField, "it is given twice")
	case several:
		r.several = true
		r.readAll(all, wrong)
	default:
		r.limits = []limited{readLimit(given, wrong, "")}
	}
	for name := range given.values {
		switch {
		case several && has(limitFields, name):
			wrong.add(name, "beside \"all\" it must be in one of its limits")
		case name != allField && !has(holdFields, name) && !has(limitFields, name):
			wrong.add(name, "there is no such field")
		}
	}
	if len(wrong) > 0 {
		return nil, invalid("", wrong)
	}
	return r, nil
}

// allField has the limits of a hold that has several.
const allField = "all"

// readAll reads them.
func (r *request) readAll(raw json.RawMessage, wrong wrongs) {
	var all []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil || len(all) == 0 || len(all) > mostLimits {
		wrong.add(allField, fmt.Sprintf(`it must be a list of 1 to %d limits, such as [{"name":"api","limit":5}]`, mostLimits))
		return
	}
	seen := map[string]bool{}
	for i, raw := range all {
		at := fmt.Sprintf("%s[%d]", allField, i)
		given, err := object(raw)
		if err != nil {
			wrong.add(at, `it must be an object, such as {"name":"api","limit":5}`)
			continue
		}
		l := readLimit(given, wrong, at+".")
		for name := range given.values {
			if !has(limitFields, name) {
				wrong.add(at+"."+name, "a limit has no such field")
			}
		}
		if seen[l.name] {
			wrong.add(at+".name", "it is named twice, and could wait for itself: use weight")
		}
		seen[l.name] = true
		r.limits = append(r.limits, l)
	}
}

// readLimit reads a limit.
func readLimit(g *given, wrong wrongs, at string) (l limited) {
	fill(g, limitFields, &l, wrong, at)
	if _, ok := g.values["name"]; !ok {
		wrong.add(at+"name", "it is missing")
	}
	_, rates := g.values["rates"]
	_, costs := g.values["costs"]
	switch {
	case rates && (l.rate > 0 || l.per > 0):
		wrong.add(at+"rate", "rates is given, too: put it there")
	case l.rate > 0 && l.per > 0:
		l.option(berth.Rate(l.rate, l.per))
	case l.rate > 0:
		wrong.add(at+"per_ms", "it is missing: a rate needs rate and per_ms")
	case l.per > 0:
		wrong.add(at+"rate", "it is missing: a rate needs rate and per_ms")
	}
	switch {
	case costs && l.cost > 0:
		wrong.add(at+"cost", "costs is given, too: put it there, as \"\"")
	case l.cost > 0:
		l.option(berth.Cost(l.cost))
	}
	_, named := g.values["tenant"]
	switch {
	case named:
		l.option(berth.Tenant(l.tenant))
		l.option(berth.Share(max(l.share, 1)))
	case l.share > 0:
		wrong.add(at+"tenant", "it is missing: a share needs a tenant")
	}
	return l
}

// given are the members of an object, in no order.
type given struct {
	values map[string]json.RawMessage
	twice  map[string]bool
}

// object reads one JSON object. It is stricter than a map: of two members with one name
// neither can be meant, and what is not UTF-8 would be replaced.
func object(body []byte) (*given, error) {
	const want = `send one JSON object, such as {"name":"api","limit":5}`
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not UTF-8: " + want)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("the body is not a JSON object: " + want)
	}
	g := &given{map[string]json.RawMessage{}, map[string]bool{}}
	for dec.More() {
		key, err := dec.Token()
		var raw json.RawMessage
		if err == nil {
			err = dec.Decode(&raw)
		}
		name, ok := key.(string)
		if err != nil || !ok {
			return nil, fmt.Errorf("the body is not a JSON object: %w: %s", errors.Join(err), want)
		}
		_, g.twice[name] = g.values[name]
		g.values[name] = raw
	}
	if _, err := dec.Token(); err != nil {
		return nil, errors.New("the body is not whole: " + want)
	}
	if rest := bytes.TrimSpace(body[dec.InputOffset():]); len(rest) > 0 {
		return nil, errors.New("there is more than one JSON value: " + want)
	}
	return g, nil
}
