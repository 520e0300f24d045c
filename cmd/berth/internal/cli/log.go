package cli

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// warnings writes what the library warns of to standard error, as this command's
// own sentences are written.
type warnings struct{ app *app }

// Enabled implements slog.Handler.
func (w warnings) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && !w.app.quiet
}

// Handle implements slog.Handler. That a connection broke is left to the command
// to tell, if it matters to it; what Redis has replied is not.
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

// WithAttrs implements slog.Handler. The library's messages have all that matters.
func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(string) slog.Handler { return w }
