package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf16"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// print writes to standard output. An error there is a failure of the command.
func (a *app) print(s string) error {
	_, err := io.WriteString(a.stdout, s)
	if errors.Is(err, unix.EPIPE) {
		return exit.Signal(unix.SIGPIPE) // as if it had ended us, and as silent
	}
	if err != nil {
		return exit.Errorf(exit.Output, "the result could not be written: %w", err)
	}
	return nil
}

// columns returns the width of the terminal on standard output, or 0.
func (a *app) columns() int {
	out, isFile := a.stdout.(*os.File)
	if !isFile || !term.IsTerminal(int(out.Fd())) {
		return 0
	}
	return screen.Width(out)
}

// printJSON writes one JSON value.
func (a *app) printJSON(v any) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	return a.print(escape(b.String()))
}

// escape writes characters that could rearrange a terminal as JSON escapes, because
// people look at JSON in terminals. Such characters occur only in strings, so the value
// stays the same.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || screen.Clean(string(r)) == string(r):
			b.WriteRune(r)
		case r < 1<<16:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return b.String()
}
