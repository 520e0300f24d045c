package words

import (
	"testing"
	"time"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain é ü 漢": "plain é ü 漢",
		"a\x1b[2Jb":   "a�[2Jb",
		"a\nb\tc\x00": "a�b�c�",
		"a\u202eb":    "a�b",
		"a\u200bb":    "a�b",
		"a\u2028b":    "a�b",
		"bad \xff":    "bad �",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	for in, want := range map[time.Duration]string{
		0:                              "0.0s",
		1490 * time.Millisecond:        "1.4s",
		12 * time.Second:               "12s",
		3*time.Minute + 5*time.Second:  "3m05s",
		2*time.Hour + 7*time.Minute:    "2h07m",
		76*time.Hour + 30*time.Minute:  "3d04h",
		-1500 * time.Millisecond:       "-1.5s",
		59*time.Second + 999*1000*1000: "59s",
	} {
		if got := Age(in); got != want {
			t.Errorf("Age(%v) = %q, want %q", in, got, want)
		}
	}
}

func TestPlainNumbersAreSeconds(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"10": 10 * time.Second, "0": 0, "0.5": 500 * time.Millisecond, ".25": 250 * time.Millisecond, "-1": -time.Second,
		"40d": 40 * 24 * time.Hour, "10min": 10 * time.Minute, "2hour": 2 * time.Hour, "-1d": -24 * time.Hour,
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond, "-1s": -time.Second,
	} {
		if got, err := ParseDuration(in); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "soon", "1e3", "0x10", "inf", "NaN", "1_000", "10 s", "d", "1.5d", "1day", "999999999999d", "1d1h", "99999999999", "1.2.3", ".", "--1", "9223372036.9"} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("%q: %v, want an error", in, got)
		}
	}
}

func TestDuration(t *testing.T) {
	for in, want := range map[time.Duration]string{
		0: "0s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Minute: "1h30m",
		time.Hour + time.Second: "1h0m1s", 250 * time.Millisecond: "250ms", 20 * time.Hour: "20h",
	} {
		got := Duration(in)
		if back, err := ParseDuration(got); got != want || err != nil || back != in {
			t.Errorf("Duration(%v) = %q, want %q; it is read as %v, %v", in, got, want, back, err)
		}
	}
}

func TestFigure(t *testing.T) {
	for in, want := range map[float64]string{0: "0", 0.04: "0.04", 0.099: "0.1", 1.26: "1.3", 9.96: "10", 27.4: "27"} {
		if got := Figure(in); got != want {
			t.Errorf("Figure(%v) = %q, want %q", in, got, want)
		}
	}
}
