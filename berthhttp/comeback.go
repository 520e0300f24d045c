package berthhttp

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// backOff are the statuses of answers that mean "come back later" where they say when: those of
// RFC 9110 and RFC 6585, that of GitHub for a rate that is spent, and that of an overloaded Anthropic.
var backOff = []int{http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable, 529}

// RetryAfter returns in how long an answer says to come back: what [ObeyRetryAfter] obeys, if the
// status is 403, 429, 503 or 529. It reads the header Retry-After in seconds, with or without a
// fraction, which is rounded up, or as a date in each of the forms of RFC 9110; before that
// Retry-After-Ms, in milliseconds. A date counts from the answer's own, so that clocks need not
// agree. It is 0 if there is no such header, or none that can be read.
func RetryAfter(resp *http.Response) time.Duration {
	d, _ := comeBack(resp.Header, time.Now())
	return d
}

// comeBack is RetryAfter for a header. unread is the text of one that is there and cannot be read.
func comeBack(h http.Header, now time.Time) (d time.Duration, unread string) {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if d, ok := number(h.Get(name), time.Millisecond); ok {
			return d, ""
		}
	}
	text := strings.TrimSpace(h.Get("Retry-After"))
	if d, ok := number(text, time.Second); ok || text == "" {
		return d, ""
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, text
	}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	if at.Before(now.AddDate(-50, 0, 0)) && strings.Contains(text, "-") { // a year of two digits
		at = at.AddDate(100, 0, 0)
	}
	return max(at.Sub(now), 0), ""
}

// number reads a count of units, rounded up. One that is too large for a Duration is the longest.
func number(text string, unit time.Duration) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	if math.IsInf(n, 1) {
		err = nil // it was out of range
	}
	if n = math.Ceil(n); n > float64(math.MaxInt64/unit) {
		return math.MaxInt64, err == nil
	}
	return time.Duration(n) * unit, err == nil
}
