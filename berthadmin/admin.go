// Package berthadmin looks at semaphores and changes them by name: it lists and shows
// them, listens to what happens, sets limits, pauses, evicts and purges. It is for
// operators: the command line and the web pages are built on it. Programs that only take
// permits do not need it.
//
//	in, err := berthadmin.New(rdb, berthadmin.Options{})
//	for sem, err := range in.List(ctx) {
//
// In JSON, durations are in milliseconds and their names end in "_ms". Errors are those
// of package berth, and those that are declared here.
package berthadmin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/bridge"
	"github.com/berth-go/berth/internal/look"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/rules"
)

var (
	// ErrNotFound: there is no such semaphore, holder or waiter.
	ErrNotFound = errors.New("berth: not found")
	// ErrPinned: an operator has pinned the rates. Nothing was changed.
	ErrPinned = errors.New("berth: rates are pinned")
	// ErrUnsupported: this kind of server does not support it.
	ErrUnsupported = errors.New("berth: not supported")
	// ErrFlood: there were more messages than Listen accepts, and it has stopped.
	ErrFlood = errors.New("berth: too many messages to listen to")
)

// Options configures New.
type Options struct {
	// Prefix is that of the semaphores' keys, as in berth.Prefix; "" is "berth".
	Prefix string
	// Logger reports a change that could not be recorded in the audit, before the verb
	// returns; nil is slog.Default().
	Logger *slog.Logger
}

// New returns an Inspector for the semaphores on one Redis that have the same prefix. It
// uses rdb, a *redis.Client or *redis.ClusterClient, which remains the caller's: it is
// neither closed nor reconfigured. There is nothing to close. New sends nothing; if Redis
// is unreachable, the first call reports it. The only error is a *berth.InvalidError.
func New(rdb redis.UniversalClient, o Options) (*Inspector, error) {
	o.Prefix = cmp.Or(o.Prefix, "berth")
	if err := cmp.Or(invalid("client", rules.Client(rdb)), invalid("prefix", rules.Prefix(o.Prefix))); err != nil {
		return nil, err
	}
	// The store asks for no permits, and so needs no name.
	return inspector(protocol.NewStore(rdb, o.Prefix, "", 0, ""), rdb, o.Prefix, cmp.Or(o.Logger, slog.Default())), nil
}

// Of returns an Inspector for the semaphores of a client: those of its Redis and prefix. It
// shares the client's log, and still works when the client is closed.
func Of(c *berth.Client) *Inspector { return inspector(internals.Admin(c)) }

var internals = berth.Internal(bridge.NewKey())

func inspector(store *protocol.Store, rdb redis.UniversalClient, prefix string, log *slog.Logger) *Inspector {
	return &Inspector{store: store, looks: look.New(store), rdb: rdb, prefix: prefix, log: log}
}

// ready refuses a nil or zero Inspector, and a nil context.
func (in *Inspector) ready(ctx context.Context) error {
	if in == nil || in.store == nil {
		return &berth.InvalidError{What: "inspector", Reason: "it was not made by New, or of a client that was: look at their errors"}
	}
	return invalid("context", rules.Context(ctx))
}

// copied returns in, for a change; a zero one of nil.
func (in *Inspector) copied() *Inspector {
	if in == nil {
		return new(Inspector)
	}
	other := *in
	return &other
}

// CheckName returns a *berth.InvalidError if no semaphore can have this name. It sends
// nothing.
func CheckName(name string) error { return invalid("name", rules.Name(name, berth.MaxName)) }

// invalid is the error for an argument that breaks a rule; nil: there is no reason, and it
// breaks none.
func invalid(what, reason string) error {
	if reason == "" {
		return nil
	}
	return &berth.InvalidError{What: what, Reason: reason}
}

// failed translates an error of the store, as the library does.
func failed(ctx context.Context, name string, err error) error {
	return internals.Failed(ctx, name, err)
}

// asked translates the error of a command that does not belong to the protocol.
func asked(ctx context.Context, err error) error {
	kind := berth.ErrUnreachable
	if _, refused := errors.AsType[redis.Error](err); refused {
		kind = berth.ErrRefused
	}
	if ctx.Err() != nil {
		return fmt.Errorf("berth: %w", ctx.Err())
	}
	return fmt.Errorf("%w: %w", kind, err)
}
