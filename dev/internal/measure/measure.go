// Package measure is the common part of lab and bench, the programs that measure semaphores: exit
// codes, flags, progress, text, and questions to Redis.
package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// The exit codes, as in sysexits.h.
const (
	OK          = 0
	Failure     = 1  // a measurement is not as it must be
	Usage       = 64 // the command line is wrong
	Unavailable = 69 // Redis does not answer
	Output      = 74 // a result could not be written
	signalBase  = 128
)

// Error is an error with an exit code.
type Error struct {
	Code int
	Err  error
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns what went wrong.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an error with a code.
func Errorf(code int, format string, args ...any) error {
	return &Error{code, fmt.Errorf(format, args...)}
}

// stopped is the cause of a context that a signal ended.
type stopped syscall.Signal

// Error implements error.
func (s stopped) Error() string { return "interrupted by " + syscall.Signal(s).String() }

// init runs before any client does: go-redis 9.22 takes no lock for its logger.
func init() { redis.SetLogger(quiet{}) }

// Run runs a program, whose context ends with a signal, and returns the exit code. It prints the
// program's error.
func Run(name string, stderr io.Writer, program func(ctx context.Context) error) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	go func() {
		select {
		case s := <-signals:
			cancel(stopped(s.(syscall.Signal)))
		case <-ctx.Done():
		}
	}()
	err := program(ctx)
	code := Code(ctx, err)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
	}
	return code
}

// Code returns the code for an error of a program that ran with ctx.
func Code(ctx context.Context, err error) int {
	if err == nil {
		return OK
	}
	if sig, ok := errors.AsType[stopped](context.Cause(ctx)); ok {
		return signalBase + int(sig)
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return own.Code
	}
	return Failure
}

// quiet discards what go-redis logs.
type quiet struct{}

// Printf implements go-redis's logger.
func (quiet) Printf(context.Context, string, ...any) {}

// Progress shows progress: in one changing line on a terminal, elsewhere in single lines.
type Progress struct {
	name string
	w    io.Writer
	live bool
	last string
	then time.Time
}

// NewProgress returns the Progress of the program with this name.
func NewProgress(name string, w io.Writer) *Progress {
	p := &Progress{name: name, w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.live = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return p
}

// Step shows the line. Unless w is a terminal, it writes the first line of each part, and at most
// one a second of the others.
func (p *Progress) Step(part, line string) {
	switch {
	case p.live:
		fmt.Fprintf(p.w, "\r\x1b[K%.100s", line)
	case part != p.last || time.Since(p.then) > time.Second:
		p.last, p.then = part, time.Now()
		fmt.Fprintf(p.w, "%s: %s\n", p.name, line)
	}
}

// Done clears the line on a terminal.
func (p *Progress) Done() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// Pause waits for d, or returns ctx's error if ctx ends first.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wrap breaks a text between words into lines of so many characters, each behind the prefix.
func Wrap(s string, width int, prefix string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines = append(lines, prefix+line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, prefix+line), "\n")
}
