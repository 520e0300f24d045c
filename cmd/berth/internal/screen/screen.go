// Package screen prepares text for terminals: it removes characters that could rearrange the
// screen, cuts text to the width, and formats ages.
package screen

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/words"
)

// defaultWidth is assumed if the terminal does not tell its width.
const defaultWidth = 80

// Clean replaces characters that could rearrange a screen.
func Clean(s string) string { return words.Clean(s) }

// Columns returns how many columns of a terminal s takes: two for each wide East Asian
// character and each emoji, none for a combining accent.
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

// Declared describes the limit that programs have declared, if any.
func Declared(limit int) string { return words.Declared(limit) }

// InUse tells how much of the limit is in use, as a request has found it.
func InUse(s *berth.Status) string {
	if s.Limit == berth.NoLimit {
		return fmt.Sprintf("%d in use", s.InUse)
	}
	return fmt.Sprintf("%d of %d in use", s.InUse, s.Limit)
}

// Spent tells, behind a comma, of the rate that keeps a request out, or of the first; "" if there is no
// rate.
func Spent(s *berth.Status) string {
	if s.Rate == 0 {
		return ""
	}
	rate := protocol.Rate{Unit: s.Unit, N: s.Rate, Per: s.Window, Burst: s.Burst}
	return ", " + protocol.Budget{Rate: rate, Spent: s.Spent}.String()
}

// Age writes a duration with the precision that people want.
func Age(d time.Duration) string { return words.Age(d) }

// AgeOrDash is Age, or a dash for 0.
func AgeOrDash(d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return Age(d)
}

// Expiry describes when a lease or waiter expires.
func Expiry(left time.Duration, expired bool) string {
	if expired {
		return "expired"
	}
	return AgeOrDash(left)
}
