package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthwatch"
	"github.com/berth-go/berth/cmd/berth/internal/connect"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
	"github.com/berth-go/berth/cmd/berth/internal/local"
	"github.com/berth-go/berth/cmd/berth/internal/run"
	"github.com/berth-go/berth/cmd/berth/internal/screen"
	"github.com/berth-go/berth/internal/words"
)

const (
	// defaultIdle is how long the machine's own store stays without clients.
	defaultIdle = 30 * time.Second
	// callTimeout bounds the commands that ask one thing and print the answer.
	callTimeout = 5 * time.Second
	// localTimeout is the same for this machine's own store, and for --no-wait. While the
	// store's process lives it will answer, but on a busy machine that may take long.
	localTimeout = time.Minute
	// closeTimeout bounds the clean-up at the end. What is not given back by then expires
	// by itself.
	closeTimeout = 2 * time.Second
	// awayTimeout is the same while Redis does not answer anyway.
	awayTimeout = 200 * time.Millisecond
	// answerTimeout is how long --no-wait waits for Redis.
	answerTimeout = 1500 * time.Millisecond

	storeName = "local-store" // the hidden command that serves it
)

// session is an open connection to wherever the semaphores are.
type session struct {
	rdb    redis.UniversalClient
	client *berth.Client
	in     *berthadmin.Inspector // of the client
	health *run.Health
	local  *local.Store // this machine's own store, if that is where they are
}

// open returns a session for the Redis of the flags and the environment. It sends
// nothing yet.
func (a *app) open() (*session, error) {
	source, raw, err := a.redisSource()
	if err != nil {
		return nil, err
	}
	s := &session{health: &run.Health{}}
	if source == "" || raw == localURL {
		store, err := a.ownStore(raw == localURL)
		if err != nil {
			return nil, err
		}
		s.local, s.rdb, a.where = store, connect.Through(store.Dial), "this machine's own store"
	} else {
		target, err := connect.Parse(raw)
		if err != nil {
			return nil, exit.Usagef("the Redis URL from %s cannot be used: %w", source, err)
		}
		target.ReadAgain(func() (string, error) { return a.urlNow(source, raw) })
		s.rdb, a.where = target.Client(), target.Where()
	}
	if a.prefix != defaultPrefix {
		a.where += ", prefix " + a.prefix
	}
	a.where = screen.Clean(a.where)
	s.rdb.AddHook(s.health)
	if s.client, err = berth.New(s.rdb, berth.Prefix(a.prefix), berth.Logger(slog.New(warnings{a}))); err != nil {
		s.rdb.Close()
		return nil, err
	}
	s.in = berthadmin.Of(s.client)
	return s, nil
}

// setter returns what tells who paused or pinned a semaphore, as far as the audit goes back.
func (s *session) setter(name string) func(ctx context.Context, place berth.Place) string {
	return func(ctx context.Context, place berth.Place) string {
		if place.Paused && place.RetryAfter > 0 {
			return "paused, for " + screen.Age(place.RetryAfter)
		}
		why := berthwatch.ReasonsIn(s.in.Audit(ctx))
		if place.Paused {
			return why.Pause(name)
		}
		return why.Pin(name)
	}
}

// ownStore returns this machine's own store, which need not run yet. It tells that this is the
// store, unless it was named.
func (a *app) ownStore(named bool) (*local.Store, error) {
	dir, err := local.Dir()
	if err != nil {
		return nil, exit.Usagef("%w", err)
	}
	if _, err := idleTime(); err != nil {
		return nil, exit.Usagef("%w", err)
	}
	if !a.quiet && !named {
		a.notices.Printf("no Redis configured: using this machine's own store (%s); BERTH_REDIS_URL=local: says that it is meant", dir)
		a.notices.Flush(lastWords) // before what is written to standard output
	}
	store := &local.Store{Dir: dir, Command: func() *exec.Cmd { return a.storeProcess(dir) }}
	if err := store.Check(); err != nil {
		return nil, exit.Errorf(exit.Unavailable, "%w", err)
	}
	a.timeout = localTimeout
	a.notices.Rename(inLocalWords)
	return store, nil
}

// enter waits until this machine's own store has time for the first request, after which the
// caller must call leave. A Redis has time for everybody.
func (s *session) enter(ctx context.Context) (leave func(), err error) {
	if s.local == nil {
		return func() {}, nil
	}
	err = s.health.Watch(func() error {
		leave, err = s.local.Enter(ctx)
		return err
	})
	if err != nil && ctx.Err() == nil {
		err = exit.Errorf(exit.Unavailable, "%w", err)
	}
	return leave, err
}

// inLocalWords replaces Redis in a message about this machine's own store, except in what is
// quoted: a name.
func inLocalWords(text string) string {
	return redisWord.ReplaceAllStringFunc(text, func(match string) string {
		if match[0] == '"' {
			return match
		}
		return redisWord.ReplaceAllString(match, "${1}the local store$2")
	})
}

var redisWord = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|(^|[\s(])[Rr]edis([\s:,;?)]|$)`)

// Close gives back what is held, cancels what waits, and disconnects, for as long as timeout. It
// ends early when interrupt delivers, or when Redis does not answer: the rest expires by itself.
func (s *session) Close(interrupt <-chan os.Signal, timeout time.Duration) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = s.client.Close()
		_ = s.rdb.Close()
	}()
	if since, _ := s.health.Outage(); !since.IsZero() {
		timeout = min(timeout, awayTimeout)
	}
	select {
	case <-closed:
	case <-interrupt:
	case <-time.After(timeout):
	}
}

// localURL names this machine's own store.
const localURL = "local:"

// redisSource returns the URL and where it comes from, or two empty strings where nobody has said
// one. A source that is there and empty is an error: a secret that a job does not get, or a
// variable with a mistake in its name, must not become a store that only this machine has.
func (a *app) redisSource() (source, raw string, err error) {
	if a.redisURL != "" {
		source, raw = "--redis", a.redisURL
	} else if source, raw, err = urlOfEnvironment(); err != nil {
		return "", "", err
	}
	if raw = strings.TrimSpace(raw); raw == "" && source != "" {
		return "", "", exit.Usagef("the Redis URL from %s is empty: give one, or local: for this machine's own store", source)
	}
	return source, raw, nil
}

// urlOfEnvironment returns the first URL of the environment, as it stands there.
func urlOfEnvironment() (source, raw string, err error) {
	for _, name := range []string{run.URLVariable, run.URLFileVariable, run.SharedURLVariable} {
		value, set := os.LookupEnv(name)
		if !set {
			continue
		}
		if source = "$" + name; name == run.URLFileVariable && value != "" {
			text, err := os.ReadFile(value)
			if err != nil {
				return "", "", exit.Usagef("%s: %w", source, err)
			}
			value = string(text)
		}
		return source, value, nil
	}
	return "", "", nil
}

// urlNow is the URL that was raw as it is now. Only a file can have another one; a pipe, as of a
// shell's <(command), is read once.
func (a *app) urlNow(source, raw string) (string, error) {
	if source != "$"+run.URLFileVariable {
		return raw, nil
	}
	if info, err := os.Stat(os.Getenv(run.URLFileVariable)); err != nil || !info.Mode().IsRegular() {
		return raw, err
	}
	_, raw, err := a.redisSource()
	return raw, err
}

// explain adds to an error about Redis which server it is, and where its URL comes from.
func (a *app) explain(err error) error {
	source, raw, _ := a.redisSource() // open has told what is wrong with it
	if a.where == "" {                // nobody was to be asked
		return err
	}
	target, invalid := connect.Parse(raw)
	op, network := errors.AsType[*net.OpError](err)
	if invalid != nil || network && op.Op == "listen" { // it is this machine's own store, or a port of this machine
		return err
	}
	return exit.Errorf(exit.Unavailable, "%s", target.Explain(err, source))
}

// self returns a command that runs this program again.
func self(args ...string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	cmd := exec.Command(path, args...)
	// The process is called berth, whatever the name of this file is.
	cmd.Args[0] = "berth"
	return cmd
}

// storeProcess returns the command that serves this machine's own store. It gets only one
// setting of the environment, because it outlives this process and must not keep its
// secrets.
func (a *app) storeProcess(dir string) *exec.Cmd {
	if a.startNothing {
		return &exec.Cmd{Err: errors.New("it does not run")}
	}
	cmd := self(storeName, "--dir", dir)
	cmd.Env = []string{"BERTH_LOCAL_IDLE=" + os.Getenv("BERTH_LOCAL_IDLE")}
	return cmd
}

// storeCommand is the process behind local mode; see package local.
func (a *app) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    storeName,
		Short:  "Serve this machine's own store (started by berth itself)",
		Hidden: true,
		Args:   takesNo("arguments"),
	}
	dir := cmd.Flags().String("dir", "", "where its socket is")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		idle, err := idleTime()
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT, unix.SIGTERM)
		defer stop()
		return local.Serve(ctx, *dir, idle)
	}
	return cmd
}

// idleTime reads $BERTH_LOCAL_IDLE.
func idleTime() (time.Duration, error) {
	s := os.Getenv("BERTH_LOCAL_IDLE")
	if s == "" {
		return defaultIdle, nil
	}
	d, err := words.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, errors.New("BERTH_LOCAL_IDLE is not a duration such as 30s")
	}
	return d, nil
}

// with opens a session for f, about semaphores of these names, which must be valid.
func (a *app) with(f func(s *session) error, names ...string) error {
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Close(nil, closeTimeout)
	for _, name := range names {
		if err := berthadmin.CheckName(name); err != nil {
			return err
		}
	}
	var leave func()
	err = a.ask(func(ctx context.Context) error {
		leave, err = s.enter(ctx)
		return err
	})
	if err != nil {
		return err
	}
	defer leave()
	return a.located(f(s))
}

// ask makes one request, which may take a.timeout. The time between requests is not bounded:
// a person may think about a question for long.
func (a *app) ask(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), a.timeout)
	defer cancel()
	err := f(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // ours: Redis does not answer
		return exit.Errorf(exit.Unavailable, "redis has not answered within %v", a.timeout)
	}
	return err
}

// call opens a session for one request.
func (a *app) call(f func(ctx context.Context, s *session) error) error {
	return a.with(func(s *session) error {
		return a.ask(func(ctx context.Context) error { return f(ctx, s) })
	})
}

// inspect opens a session for one request through an Inspector.
func (a *app) inspect(f func(ctx context.Context, in *berthadmin.Inspector) error) error {
	return a.call(func(ctx context.Context, s *session) error { return f(ctx, s.in) })
}

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
	text := strings.TrimPrefix(r.Message, "berth: ")
	sep, broke, tell := ": ", false, w.app.notices.Printf
	values := map[string]slog.Value{}
	r.Attrs(func(a slog.Attr) bool {
		values[a.Key] = a.Value
		if err, ok := a.Value.Any().(error); ok {
			_, reply := err.(redis.Error) //nolint:errorlint // a reply by itself, and not why a connection failed
			broke, tell = broke || !reply, w.app.notices.Warnf
		}
		text += fmt.Sprintf("%s%s %v", sep, a.Key, a.Value)
		sep = ", "
		return true
	})
	if broke {
		return nil
	}
	if strings.Contains(r.Message, "subscription broke") {
		w.app.notices.SlowWaitf("hand-offs are slow: %v", values["error"])
		return nil
	}
	if strings.HasSuffix(r.Message, "changed the limit in force") {
		text = fmt.Sprintf("limit of %v changed from %v to %v", values["semaphore"], words.Limit(int(values["from"].Int64())), words.Limit(int(values["to"].Int64())))
	}
	tell("%s", text)
	return nil
}

// WithAttrs implements slog.Handler. The library does not use it.
func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(string) slog.Handler { return w }
