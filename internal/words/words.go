// Package words formats labels, ages and counts for people to read.
package words

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Clean replaces characters that would move the cursor, change colours or reorder text,
// because names and labels come from other programs.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// Age formats a duration with a sensible precision: 0.4s, 12s, 3m05s, 2h07m, 3d04h.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Age(-d)
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// Millis formats a short duration: 0.3 ms, 27 ms, 1250 ms.
func Millis(d time.Duration) string {
	return Figure(float64(d.Microseconds())/1000) + " ms"
}

// anyLimit is berth.NoLimit.
const anyLimit = 1 << 30

// Limit formats a limit, berth.NoLimit as "any".
func Limit(n int) string {
	if n == anyLimit {
		return "any"
	}
	return strconv.Itoa(n)
}

// Declared formats the limit that programs have declared; 0: none has.
func Declared(n int) string {
	if n == 0 {
		return "none"
	}
	return Limit(n)
}

// Plural formats a count of things.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

var errDuration = errors.New("not a duration such as 90s, 10m or 2h; a plain number is seconds")

// longUnits are units of time that people write and Go does not read.
var longUnits = map[string]time.Duration{"min": time.Minute, "hour": time.Hour, "d": 24 * time.Hour}

// ParseDuration parses a duration in Go's form, a whole number with the unit min, hour or d, or a plain
// number of seconds, with or without a fraction, as sleep and flock accept it.
func ParseDuration(s string) (time.Duration, error) {
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz")
	if unit, ok := longUnits[s[len(number):]]; ok {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > math.MaxInt64/int64(unit) || n < -math.MaxInt64/int64(unit) {
			return 0, errDuration
		}
		return time.Duration(n) * unit, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	if strings.Trim(strings.TrimPrefix(s, "-"), "0123456789.") != "" {
		return 0, errDuration
	}
	seconds, err := strconv.ParseFloat(s, 64)
	if err != nil || math.Abs(seconds) > math.MaxInt64/float64(time.Second) {
		return 0, errDuration
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// Duration formats a duration as ParseDuration reads it: 90s is 1m30s, and an hour 1h.
func Duration(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// Figure formats a number with the digits that matter: 0.04, 1.3, 27.
func Figure(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f < 0.095:
		return fmt.Sprintf("%.2f", f)
	case f < 9.95:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.0f", f)
}
