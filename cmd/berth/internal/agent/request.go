package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/value"
	"github.com/berth-go/berth/internal/rules"
)

const (
	// leastBeat bounds beat_ms: a program that must write more often would do little else.
	leastBeat = 100 * time.Millisecond
	// leastPer is the shortest window of a rate.
	leastPer = 10 * time.Millisecond
	// mostWrong is how many wrong fields an answer names.
	mostWrong = 20
)

// request is what a client asks for.
type request struct {
	name    string
	limit   int
	label   string
	pid     int            // 0: it does not say it
	wait    *time.Duration // nil: for as long as the connection lasts
	beat    time.Duration  // 0: it need not write
	rate    int            // 0: it declares none
	per     time.Duration  // of the rate
	tenant  string         // "": it is nobody's
	pace    time.Duration  // of the tenant; 0: it says none
	options []berth.AcquireOption
}

// field is a term of a request: its name in JSON, and a function that sets it or returns why
// it cannot.
type field struct {
	name string
	set  func(*request, json.RawMessage) (reason string)
}

// fields are the terms. Any other is refused.
var fields = []field{
	{"name", text(berth.MaxName, rules.Name, func(r *request, s string) { r.name = s })},
	{"limit", number(0, berth.MaxLimit, func(r *request, n int) { r.limit = n })},
	{"rate", number(1, berth.MaxLimit, func(r *request, n int) { r.rate = n })},
	{"per_ms", millis(leastPer, berth.MaxTTL, func(r *request, d time.Duration) { r.per = d })},
	{"tenant", text(berth.MaxTenant, rules.Key, func(r *request, s string) { r.tenant = s })},
	{"pace_ms", millis(berth.MinTTL, berth.MaxPace, func(r *request, d time.Duration) { r.pace = d })},
	{"cost", number(1, berth.MaxLimit, option(berth.Cost))},
	{"weight", number(1, berth.MaxLimit, option(berth.Weight))},
	{"queue_limit", number(0, berth.MaxLimit, option(berth.QueueLimit))},
	{"ttl_ms", millis(berth.MinTTL, berth.MaxTTL, option(berth.TTL))},
	{"max_hold_ms", millis(berth.MinTTL, berth.MaxTTL, option(berth.MaxHold))},
	{"head_start_ms", millis(0, berth.MaxTTL, option(berth.HeadStart))},
	{"wait_ms", millis(0, berth.MaxTTL, func(r *request, d time.Duration) { r.wait = &d })},
	{"beat_ms", millis(leastBeat, berth.MaxTTL, func(r *request, d time.Duration) { r.beat = d })},
	{"pid", number(1, math.MaxInt32, func(r *request, n int) { r.pid = n })},
	{"label", text(berth.MaxLabel, rules.Text, func(r *request, s string) { r.label = s })},
}

// option returns what sets an option of the library.
func option[T any, O berth.AcquireOption](of func(T) O) func(*request, T) {
	return func(r *request, v T) { r.options = append(r.options, of(v)) }
}

// number reads a whole number from least to most.
func number[N int | int64](least, most N, set func(*request, N)) func(*request, json.RawMessage) string {
	return func(r *request, raw json.RawMessage) string {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange) || err == nil && (n < int64(least) || n > int64(most)):
			return fmt.Sprintf("%.20s is outside %d to %d", raw, least, most)
		case err != nil:
			return "it must be a whole number"
		}
		set(r, N(n))
		return ""
	}
}

// millis reads a duration in milliseconds, from least to most.
func millis(least, most time.Duration, set func(*request, time.Duration)) func(*request, json.RawMessage) string {
	return number(least.Milliseconds(), most.Milliseconds(), func(r *request, n int64) {
		set(r, time.Duration(n)*time.Millisecond)
	})
}

// text reads a string that keeps a rule.
func text(most int, rule func(string, int) string, set func(*request, string)) func(*request, json.RawMessage) string {
	return func(r *request, raw json.RawMessage) string {
		var s *string
		if err := json.Unmarshal(raw, &s); err != nil || s == nil {
			return "it must be a string"
		}
		set(r, *s)
		return rule(*s, most)
	}
}

// parse reads a request. The refusal names each field that is wrong.
func parse(body []byte) (*request, *refusal) {
	given, err := object(body)
	if err != nil {
		return nil, invalid(err.Error(), nil)
	}
	r, wrong := &request{}, map[string]string{}
	for name, raw := range given.values {
		reason := "there is no such field"
		for _, f := range fields {
			if f.name == name {
				reason = f.set(r, raw)
			}
		}
		if given.twice[name] {
			reason = "it is given twice"
		}
		if reason != "" && len(wrong) < mostWrong {
			wrong[fmt.Sprintf("%.64s", name)] = reason
		}
	}
	if _, ok := given.values["name"]; !ok {
		wrong["name"] = "it is missing"
	}
	switch {
	case r.rate > 0 && r.per > 0:
		r.options = append(r.options, berth.Rate(r.rate, r.per))
	case r.rate > 0:
		wrong["per_ms"] = "it is missing: a rate is so much per so many milliseconds"
	case r.per > 0:
		wrong["rate"] = "it is missing: a rate is so much per so many milliseconds"
	}
	_, named := given.values["tenant"]
	switch {
	case named:
		r.options = append(r.options, berth.Tenant(r.tenant, cmp.Or(r.pace, value.UsualPace)))
	case r.pace > 0:
		wrong["tenant"] = "it is missing: a pace is a tenant's"
	}
	if len(wrong) > 0 {
		return nil, invalid("", wrong)
	}
	return r, nil
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
		return nil, errors.New("the body is no JSON object: " + want)
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
			return nil, fmt.Errorf("the body is no JSON object: %w: %s", errors.Join(err), want)
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
