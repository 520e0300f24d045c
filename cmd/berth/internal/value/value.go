// Package value parses the numbers and durations of a command line, with errors in a user's
// words.
package value

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/berth-go/berth/internal/words"
)

var errInt = errors.New("not a whole number, or too large")

func parseInt(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, errInt
	}
	return n, nil
}

// Duration returns a flag for *p, which becomes the default.
func Duration(p *time.Duration, def time.Duration) pflag.Value {
	*p = def
	return flag[time.Duration]{p, "duration", words.ParseDuration}
}

// Int returns a flag for *p, which becomes the default.
func Int(p *int, def int) pflag.Value {
	*p = def
	return flag[int]{p, "int", parseInt}
}

// Rate is a count and a window, N/DURATION: 60/1m, 5/1s or 90000/1h.
type Rate struct {
	N   int
	Per time.Duration
}

// Set implements pflag.Value. "N/s", "N/m" and "N/h" are short for a window of one.
func (r *Rate) Set(s string) error {
	count, window, _ := strings.Cut(s, "/")
	if window == "s" || window == "m" || window == "h" {
		window = "1" + window
	}
	n, bad := parseInt(count)
	per, err := words.ParseDuration(window)
	if bad != nil || err != nil || n < 1 || per <= 0 {
		return errRate
	}
	*r = Rate{n, per}
	return nil
}

// Type implements pflag.Value.
func (*Rate) Type() string { return "rate" }

// String implements pflag.Value.
func (r *Rate) String() string {
	if r.N == 0 {
		return ""
	}
	return strconv.Itoa(r.N) + "/" + r.Per.String()
}

var errRate = errors.New("not a rate, like 60/1m or 5/1s")

// Tenant is a key and a pace, KEY or KEY/PACE: acme, acme/500ms. A key may have slashes: what is
// behind the last is a pace if it is a duration.
type Tenant struct {
	Key  string
	Pace time.Duration
}

// UsualPace is that of a tenant without one.
const UsualPace = time.Second

// Set implements pflag.Value.
func (t *Tenant) Set(s string) error {
	*t = Tenant{s, UsualPace}
	if i := strings.LastIndexByte(s, '/'); i >= 0 {
		if pace, err := words.ParseDuration(s[i+1:]); err == nil {
			*t = Tenant{s[:i], pace}
		}
	}
	if t.Key == "" {
		return errTenant
	}
	return nil
}

// Type implements pflag.Value.
func (*Tenant) Type() string { return "tenant" }

// String implements pflag.Value.
func (t *Tenant) String() string {
	if t.Key == "" {
		return ""
	}
	return t.Key + "/" + t.Pace.String()
}

var errTenant = errors.New("not a tenant, like acme or acme/500ms")

// flag implements pflag.Value.
type flag[T int | time.Duration] struct {
	p     *T
	kind  string
	parse func(string) (T, error)
}

// Set implements pflag.Value.
func (f flag[T]) Set(s string) error {
	v, err := f.parse(s)
	if err == nil {
		*f.p = v
	}
	return err
}

// Type implements pflag.Value.
func (f flag[T]) Type() string { return f.kind }

// String implements pflag.Value. A default of "0" is not shown.
func (f flag[T]) String() string {
	if *f.p == 0 {
		return "0"
	}
	return fmt.Sprint(*f.p)
}
