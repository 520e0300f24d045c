package value

import (
	"testing"
	"time"
)

func TestPlainNumbersAreSeconds(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"10": 10 * time.Second, "0": 0, "0.5": 500 * time.Millisecond, ".25": 250 * time.Millisecond, "-1": -time.Second,
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond, "-1s": -time.Second,
	} {
		if got, err := ParseDuration(in); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "soon", "1e3", "0x10", "inf", "NaN", "1_000", "10 s", "1d", "99999999999", "1.2.3", ".", "--1", "9223372036.9"} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("%q: %v, want an error", in, got)
		}
	}
}

func TestInt(t *testing.T) {
	var n int
	v := Int(&n, 7)
	if n != 7 {
		t.Errorf("the default is %d", n)
	}
	if err := v.Set("12"); err != nil || n != 12 {
		t.Errorf("12: %d, %v", n, err)
	}
	for _, in := range []string{"", "abc", "1.5", "1e3", "99999999999999999999"} {
		if err := v.Set(in); err == nil || n != 12 {
			t.Errorf("%q: %d, %v", in, n, err)
		}
	}
}
