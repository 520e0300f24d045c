// Package measure has what the programs that measure semaphores, lab and bench, share: how they
// end, what their flags choose from, what they tell meanwhile, and the Redis under them.
package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// The codes to exit with, as in sysexits.h.
const (
	OK          = 0
	Failure     = 1  // what was measured is not as it must be
	Usage       = 64 // the command line is wrong
	Unavailable = 69 // there is no Redis, or it went away
	Output      = 74 // a result could not be written
	signalBase  = 128
)

// Error is an error with the code to exit with.
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

// stopped is the cause of a context that a signal has ended.
type stopped syscall.Signal

// Error implements error.
func (s stopped) Error() string { return "interrupted by " + syscall.Signal(s).String() }

// Run runs a program until it is done, or until a signal ends its context. It tells what went
// wrong and returns the code to exit with.
func Run(name string, stderr io.Writer, program func(ctx context.Context) error) int {
	redis.SetLogger(quiet{})
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

// quiet keeps go-redis from writing between the lines.
type quiet struct{}

// Printf implements go-redis's logger.
func (quiet) Printf(context.Context, string, ...any) {}

// Progress tells what goes on: on a terminal in one line that changes, elsewhere in lines.
type Progress struct {
	name string
	w    io.Writer
	live bool
	last string
	then time.Time
}

// NewProgress returns one for the program with this name.
func NewProgress(name string, w io.Writer) *Progress {
	p := &Progress{name: name, w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.live = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return p
}

// Step tells the line. Where lines stay, it tells one a second at the most, but for the first of
// each part.
func (p *Progress) Step(part, line string) {
	switch {
	case p.live:
		fmt.Fprintf(p.w, "\r\x1b[K%.100s", line)
	case part != p.last || time.Since(p.then) > time.Second:
		p.last, p.then = part, time.Now()
		fmt.Fprintf(p.w, "%s: %s\n", p.name, line)
	}
}

// Done removes what the last step left on a terminal.
func (p *Progress) Done() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
