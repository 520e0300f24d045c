package top

import (
	"errors"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthwatch"
)

// Plain is one picture of all semaphores as text without colours, so wide.
func Plain(v berthwatch.View, width int, ascii bool) string {
	m := New(Config{})
	m.plain = true
	none := lipgloss.NewStyle()
	m.style = style{none, none, none, none, none, none, none}
	m.width, m.now, m.view = width, v.At, v
	m.arrange()
	m.selected = "" // nobody is at the cursor
	var b strings.Builder
	for i, l := range append(m.header()[:1], m.listLines(len(m.visible)+2)...) {
		text := row(l, width, &none)
		if i > 0 && len(l) == 0 {
			text = ""
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	if ascii {
		return toASCII(b.String())
	}
	return b.String()
}

// Sample is a view as JSON: a line of "berth top --json".
type Sample struct {
	At         time.Time       `json:"at"`
	Cost       float64         `json:"cost_ms"` // of the server's time, at most
	Semaphores []berth.Summary `json:"semaphores"`
	Damaged    []Damaged       `json:"damaged"`
	Error      string          `json:"error,omitempty"` // why this is not up to date
}

// Damaged is a semaphore that cannot be read.
type Damaged struct {
	Name  string `json:"name"`
	Newer bool   `json:"newer"` // a newer berth wrote it
	Error string `json:"error"`
}

// NewSample returns what is known in v. Idle ones are left out.
func NewSample(v berthwatch.View) Sample {
	s := Sample{At: v.At.UTC(), Cost: float64(v.Cost.Microseconds()) / 1000, Semaphores: []berth.Summary{}, Damaged: []Damaged{}}
	for _, r := range v.Rows {
		switch {
		case r.Err != nil:
			var corrupt *berth.CorruptError
			newer := errors.As(r.Err, &corrupt) && corrupt.Newer
			s.Damaged = append(s.Damaged, Damaged{r.Name, newer, r.Err.Error()})
		case !r.Idle:
			s.Semaphores = append(s.Semaphores, r.Summary)
		}
	}
	if v.Err != nil {
		s.Error = v.Err.Error()
	}
	return s
}
