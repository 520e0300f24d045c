// Package bridge gives packages berthpool, berthadmin and berthhttp access to internals of
// package berth that are not part of its API. Importing berth here would make a cycle, so package
// berth sets the functions when it is initialized.
package bridge

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/events"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/session"
)

// Semaphore returns this process's side of a *berth.Semaphore, the terms of its
// leases, and whether their holders renew them.
var Semaphore func(sem any) (inner *session.Semaphore, terms *protocol.Terms, manual bool)

// Trust returns until when the holder of a *berth.Lease may rely on it, or the zero Instant
// if the lease is over. Renewals only ever move it to a later time.
var Trust func(lease any) clock.Instant

// Admin returns what a *berth.Client has for looking at semaphores and changing them.
var Admin func(client any) (store *protocol.Store, rdb redis.UniversalClient, prefix string, log *slog.Logger)

// Events returns the events of a *berth.Client.
var Events func(client any) *events.Queue

// Failed translates an error of the inner packages for a caller, whose context may be its reason.
var Failed func(ctx context.Context, name string, err error) error

// Order returns the indexes of a []*berth.Semaphore in the order in which AcquireAll takes them, or
// its error.
var Order func(sems any) ([]int, error)

// Look reads the state of a *berth.Semaphore, and returns it with the terms of a request that has
// the given []berth.AcquireOption. It changes nothing. Snapshot.Rest is exact for that request.
var Look func(ctx context.Context, within time.Duration, sem, opts any) (*protocol.Snapshot, *protocol.Terms, error)
