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
