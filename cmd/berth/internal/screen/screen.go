// Package screen prepares text for people's terminals: without characters that
// could rearrange the screen, cut to its width, with ages that read at a glance.
package screen

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/berth-go/berth/internal/words"
)

// defaultWidth is assumed where the terminal does not tell.
const defaultWidth = 80

// Clean replaces what would rearrange a screen.
func Clean(s string) string { return words.Clean(s) }

// Columns returns how many columns of a terminal s takes: two for each wide
// character of East Asia and each emoji, none for an accent that is put on top of
// the letter before it.
func Columns(s string) int { return ansi.StringWidth(s) }

// Fit cuts s to a number of columns.
func Fit(s string, columns int) string { return ansi.Truncate(s, columns, "…") }

// Wrap breaks a text between its words into lines of so many columns. A word that is
// too long for a line has one of its own. All lines but the first are indented.
func Wrap(text string, columns, indent int) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		last := len(lines) - 1
		switch {
		case last < 0:
			lines = append(lines, word)
		case Columns(lines[last])+1+Columns(word) <= columns:
			lines[last] += " " + word
		default:
			lines = append(lines, strings.Repeat(" ", indent)+word)
		}
	}
	return lines
}

// Width returns the terminal's width.
func Width(f *os.File) int {
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return defaultWidth
}

// Declared is the limit that programs have declared, if any has.
func Declared(limit int) string {
	if limit == 0 {
		return "none"
	}
	return strconv.Itoa(limit)
}

// Age writes a duration with the precision that people want.
func Age(d time.Duration) string { return words.Age(d) }

// AgeOrDash is Age for a time that may not be there.
func AgeOrDash(d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return Age(d)
}

// Expiry is when a lease or a place in the queue runs out.
func Expiry(left time.Duration, expired bool) string {
	if expired {
		return "expired"
	}
	return AgeOrDash(left)
}
