package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// warnings writes the library's warnings to standard error, in the form of the
// command's own.
type warnings struct{ app *app }

// Enabled implements slog.Handler.
func (w warnings) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && !w.app.quiet
}

// Handle implements slog.Handler. It drops warnings about broken connections, which the
// command itself tells if they matter to it, but not what Redis has replied.
func (w warnings) Handle(_ context.Context, r slog.Record) error {
	text := "berth: " + strings.TrimPrefix(r.Message, "berth: ")
	sep, broke := ": ", false
	values := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		values[a.Key] = a.Value
		if err, ok := a.Value.Any().(error); ok {
			_, reply := err.(redis.Error) //nolint:errorlint // a reply by itself, and not why a connection failed
			broke = broke || !reply
		}
		text += fmt.Sprintf("%s%s %v", sep, a.Key, a.Value)
		sep = ", "
		return true
	})
	if broke {
		return nil
	}
	if strings.HasSuffix(r.Message, "changed the limit in force") {
		text = fmt.Sprintf("berth: limit of %v changed from %v to %v", values["semaphore"], values["from"], values["to"])
	}
	_, err := fmt.Fprintln(w.app.stderr, screen.Clean(text))
	return err
}

// WithAttrs implements slog.Handler. The library does not use it.
func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(string) slog.Handler { return w }
