package agent

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// field is a term of a T: its name in JSON, and a function that sets it or returns why it cannot.
type field[T any] struct {
	name string
	set  func(*T, json.RawMessage) (reason string)
}

// has reports whether one of the fields has this name.
func has[T any](fields []field[T], name string) bool {
	for _, f := range fields {
		if f.name == name {
			return true
		}
	}
	return false
}

// wrongs are wrong fields, and why each of them is.
type wrongs map[string]string

// add notes a field, unless there are many already. The first reason counts.
func (w wrongs) add(name, reason string) {
	if name = fmt.Sprintf("%.64s", name); w[name] == "" && len(w) < mostWrong {
		w[name] = reason
	}
}

// fill sets the fields that are given. at is what stands before their names.
func fill[T any](g *given, fields []field[T], into *T, wrong wrongs, at string) {
	for _, f := range fields {
		raw, ok := g.values[f.name]
		if !ok {
			continue
		}
		reason := f.set(into, raw)
		if g.twice[f.name] {
			reason = "it is given twice"
		}
		if reason != "" {
			wrong.add(at+f.name, reason)
		}
	}
}

// number reads a whole number from least to most.
func number[T any, N int | int64](least, most N, set func(*T, N)) func(*T, json.RawMessage) string {
	return func(into *T, raw json.RawMessage) string {
		n, ok := whole(raw)
		switch {
		case !ok:
			return "it must be a whole number"
		case n < float64(least) || n > float64(most):
			return fmt.Sprintf("%.20s is outside %d to %d", raw, least, most)
		}
		set(into, N(n))
		return ""
	}
}

// whole reads a whole number in each form that JSON has for it: 500, 500.0 and 5e2. A float64 has
// all that are in bounds.
func whole(raw json.RawMessage) (float64, bool) {
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false // and what ParseFloat takes for a number beside JSON's
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	return n, math.IsInf(n, 0) || err == nil && n == math.Trunc(n)
}

// millis reads a duration in milliseconds, from least to most.
func millis[T any](least, most time.Duration, set func(*T, time.Duration)) func(*T, json.RawMessage) string {
	return number(least.Milliseconds(), most.Milliseconds(), func(into *T, n int64) {
		set(into, time.Duration(n)*time.Millisecond)
	})
}

// flag reads true or false.
func flag[T any](set func(*T, bool)) func(*T, json.RawMessage) string {
	return func(into *T, raw json.RawMessage) string {
		is := string(raw) == "true"
		if !is && string(raw) != "false" {
			return "it must be true or false"
		}
		set(into, is)
		return ""
	}
}

// text reads a string that keeps a rule.
func text[T any](most int, rule func(string, int) string, set func(*T, string)) func(*T, json.RawMessage) string {
	return func(into *T, raw json.RawMessage) string {
		var s *string
		if err := json.Unmarshal(raw, &s); err != nil || s == nil {
			return "it must be a string"
		}
		set(into, *s)
		return rule(*s, most)
	}
}
