// Package screen prepares text for people's terminals: without characters that
// could rearrange the screen, cut to its width, with ages that read at a glance.
package screen

import (
	"os"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
	"golang.org/x/text/width"

	"github.com/berth-go/berth/internal/words"
)

// defaultWidth is assumed where the terminal does not tell.
const defaultWidth = 80

// Clean replaces what would rearrange a screen.
func Clean(s string) string { return words.Clean(s) }

// Columns returns how many columns of a terminal s takes: two for each wide
// character of East Asia and each emoji, none for an accent that is put on top of
// the letter before it.
func Columns(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Fit cuts s to a number of columns.
func Fit(s string, columns int) string {
	if Columns(s) <= columns {
		return s
	}
	end, left := 0, columns-1 // one is for the sign that something is missing
	for i, r := range s {
		if left -= columnsOf(r); left < 0 {
			break
		}
		end = i + utf8.RuneLen(r)
	}
	if columns < 1 {
		return ""
	}
	return s[:end] + "…"
}

// Width returns the terminal's width.
func Width(f *os.File) int {
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return defaultWidth
}

// Age writes a duration with the precision that people want.
func Age(d time.Duration) string { return words.Age(d) }
