// Package value parses the numbers and durations of a command line, with errors in a user's
// words.
package value

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

var (
	errDuration = errors.New("not a duration such as 90s, 10m or 2h; a plain number is seconds")
	errInt      = errors.New("not a whole number, or too large")
)

// ParseDuration parses a duration in Go's form, or a plain number of seconds, with or without
// a fraction, as sleep and flock accept it.
func ParseDuration(s string) (time.Duration, error) {
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

// ParseInt parses an integer.
func ParseInt(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, errInt
	}
	return n, nil
}

// Duration returns a flag for *p, which becomes the default.
func Duration(p *time.Duration, def time.Duration) pflag.Value {
	*p = def
	return (*duration)(p)
}

// Int returns a flag for *p, which becomes the default.
func Int(p *int, def int) pflag.Value {
	*p = def
	return (*number)(p)
}

type duration time.Duration

// Set implements pflag.Value.
func (d *duration) Set(s string) error {
	v, err := ParseDuration(s)
	if err == nil {
		*d = duration(v)
	}
	return err
}

// Type implements pflag.Value.
func (d *duration) Type() string { return "duration" }

// String implements pflag.Value. A default of "0" is not shown.
func (d *duration) String() string {
	if *d == 0 {
		return "0"
	}
	return time.Duration(*d).String()
}

type number int

// Set implements pflag.Value.
func (n *number) Set(s string) error {
	v, err := ParseInt(s)
	if err == nil {
		*n = number(v)
	}
	return err
}

// Type implements pflag.Value.
func (n *number) Type() string { return "int" }

// String implements pflag.Value.
func (n *number) String() string { return strconv.Itoa(int(*n)) }
