package run

import (
	"testing"
	"time"

	"github.com/berth-go/berth"
)

func TestOrdinal(t *testing.T) {
	for n, want := range map[int]string{
		1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 102: "102nd", 111: "111th",
	} {
		if got := ordinal(n); got != want {
			t.Errorf("ordinal(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestLineText(t *testing.T) {
	l := &line{name: "s", place: &berth.Place{Ahead: 2, InUse: 5, Limit: 5}}
	if got, want := l.text(75*time.Second), "berth: s: 3rd in line, 5 of 5 in use, waited 1m15s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	l.place.Ahead = 0
	if got, want := l.text(time.Second), "berth: s: next in line, 5 of 5 in use, waited 1.0s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The newest place wins, and nobody is kept waiting.
func TestLatest(t *testing.T) {
	places := make(chan berth.Place, 1)
	f := latest(places)
	for ahead := range 5 {
		f(berth.Place{Ahead: ahead})
	}
	if p := <-places; p.Ahead != 4 {
		t.Errorf("got %d ahead, want the newest, 4", p.Ahead)
	}
}
