package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
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
	_, err := a.stdout.WriteString(s)
	if errors.Is(err, unix.EPIPE) {
		return exit.Signal(unix.SIGPIPE) // as if it had ended us, and as silent
	}
	if err != nil {
		return exit.Errorf(exit.Output, "the result could not be written: %w", err)
	}
	return nil
}

// printJSON writes one JSON value.
func (a *app) printJSON(v any) error { return a.printIndented(v, "  ") }

// printIndented is printJSON with another indent. With "" the value is one line.
func (a *app) printIndented(v any, indent string) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
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
		if r == '\n' || screen.Clean(string(r)) == string(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// columns returns the width of the terminal on standard output, or 0.
func (a *app) columns() int {
	if !isTerminal(a.stdout) {
		return 0
	}
	return screen.Width(a.stdout)
}

// heading names the server for a person who looks at a terminal. Programs that read the output
// get only what was asked for.
func (a *app) heading() string {
	if !isTerminal(a.stdout) {
		return ""
	}
	return "Server: " + a.where + "\n"
}

// widest is the longest line of prose that is pleasant to read.
const widest = 100

// page returns how wide text on standard output may be, and whether it may have colours.
func (a *app) page() (width int, color bool) {
	if !isTerminal(a.stdout) {
		return widest, false
	}
	return min(screen.Width(a.stdout), widest), os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// interactive reports whether a question can be shown and answered.
func (a *app) interactive() bool { return isTerminal(a.stdin) && isTerminal(a.stderr) }

// mustAsk refuses, before anything else happens, an action that needs a confirmation
// when there is no terminal to ask on.
func (a *app) mustAsk(why string) error {
	if a.yes || a.interactive() {
		return nil
	}
	return exit.Usagef("%s: add --yes to do it without being asked", why)
}

// confirm shows a plan and asks, unless --yes is set. Any answer but yes means no.
func (a *app) confirm(plan, question string) error {
	if a.yes {
		return nil
	}
	fmt.Fprintf(a.stderr, "%sServer: %s\n%s [y/N] ", plan, a.where, question)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.stderr) // the cursor stands behind the question
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return exit.Errorf(exit.Failure, "nothing was changed")
}
