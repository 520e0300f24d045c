package berthwatch

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/words"
)

// ParseRate reads a rate as the command line does, [UNIT=]N/PER[+BURST]: 60/1m, 5/s, 50000/d,
// tokens=90000/min, api=2/1s+40. "none" and "UNIT=none" are a rate with N 0. The error is
// berth.ErrInvalid.
func ParseRate(text string) (r berthadmin.Rate, err error) {
	wrong := &berth.InvalidError{What: "rate", Reason: fmt.Sprintf("%.60q is not like 60/1m, tokens=90000/min or api=2/1s+40", text)}
	unit, rest, named := strings.Cut(text, "=")
	if !named {
		unit, rest = "", text
	}
	if named && unit == "" {
		return r, wrong
	}
	if rest == "none" {
		return berthadmin.Rate{Unit: unit}, berthadmin.CheckRate(berthadmin.Rate{Unit: unit})
	}
	count, window, _ := strings.Cut(rest, "/")
	window, burst, bucket := strings.Cut(window, "+")
	if window != "" && (window[0] < '0' || window[0] > '9') {
		window = "1" + window // "5/s" is 5/1s
	}
	r.Unit = unit
	n, bad := strconv.Atoi(count)
	per, err := words.ParseDuration(window)
	if bucket && bad == nil {
		r.Burst, bad = strconv.Atoi(burst)
	}
	if bad != nil || err != nil || n < 1 || per <= 0 || bucket && r.Burst < 1 {
		return r, wrong
	}
	r.N, r.Per = n, per
	return r, berthadmin.CheckRate(r)
}

// RateFlag is a rate as ParseRate reads it.
func RateFlag(r berthadmin.Rate) string {
	text := "none"
	if r.N > 0 {
		text = strconv.Itoa(r.N) + "/" + words.Duration(r.Per)
	}
	if r.Burst > 0 {
		text += "+" + strconv.Itoa(r.Burst)
	}
	if r.Unit != "" {
		text = r.Unit + "=" + text
	}
	return text
}

// RateFlags are rates with spaces between, as Action.Rates has them.
func RateFlags(all []berthadmin.Rate) string {
	var words []string
	for _, r := range all {
		words = append(words, RateFlag(r))
	}
	return strings.Join(words, " ")
}

// CheckRates returns berth.ErrInvalid if Action.Rates cannot be so.
func CheckRates(text string) error {
	units, _, err := byUnit(text)
	if err == nil && len(units) == 0 {
		err = &berth.InvalidError{What: "rates", Reason: "they are missing"}
	}
	return err
}

// Costs returns what a waiter costs of each rate that counts something else than its weight, as in
// "1200 tokens"; "" if there is none.
func Costs(w *berthadmin.Waiter) string {
	var all []string
	for _, unit := range slices.Sorted(maps.Keys(w.Costs)) {
		if n := w.Costs[unit]; unit != "" || n != w.Weight {
			all = append(all, strings.TrimSuffix(fmt.Sprintf("%d %s", n, unit), " "))
		}
	}
	return strings.Join(all, ", ")
}

// byUnit reads rates that have spaces between, and returns those that are to be set for each unit, in
// the order in which the units are named.
func byUnit(text string) (units []string, rates map[string][]berthadmin.Rate, err error) {
	rates = map[string][]berthadmin.Rate{}
	for word := range strings.FieldsSeq(text) {
		r, err := ParseRate(word)
		if err != nil {
			return nil, nil, err
		}
		if _, known := rates[r.Unit]; !known {
			units, rates[r.Unit] = append(units, r.Unit), nil
		}
		if r.N > 0 {
			rates[r.Unit] = append(rates[r.Unit], r)
		}
	}
	return units, rates, nil
}
