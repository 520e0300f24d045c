package classic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// lockPause is the chapter's pause between two tries to get a lock.
	lockPause = time.Millisecond
	// cleanupTimeout bounds what is done after the caller's context has ended.
	cleanupTimeout = 5 * time.Second
)

// Lock is the lock with a time-out of section 6.2.5 (listing 6.11; the release
// is listing 6.10): a string in the key lock:NAME, there while the lock is held.
//
// Its expiry comes with it in one command, SET NX, as the chapter's note
// suggests. A client that crashes would otherwise keep the lock for ever. If
// the key is found without an expiry, because a program made the lock in two
// steps and crashed between them, Acquire gives it one, as section 6.2.5 does.
//
// Known fault: a client that is paused for longer than the expiry still believes
// that it has the lock when another one has it. Release tells it, afterwards.
type Lock struct {
	config
	rdb  redis.UniversalClient
	name string
	key  string
}

// NewLock returns the lock name, which is the key lock:NAME. It sends nothing.
func NewLock(rdb redis.UniversalClient, name string, opts ...Option) (*Lock, error) {
	if err := validTarget(rdb, name); err != nil {
		return nil, err
	}
	c, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	return &Lock{config: c, rdb: rdb, name: name, key: "lock:" + name}, nil
}

// Acquire tries to get the lock for at most wait, a try per millisecond; 0
// means one try. With ok, id holds it until Release or the lock's time-out.
// Without, each try found it taken: by another client or, if the Redis client
// repeated a SET whose reply was lost, by the first copy of that, until the
// time-out. After an error, a context that ended included, the lock may be held
// until its time-out.
func (l *Lock) Acquire(ctx context.Context, wait time.Duration) (id string, ok bool, err error) {
	if err := made(l != nil && l.rdb != nil); err != nil {
		return "", false, err
	}
	if wait < 0 {
		return "", false, invalid("wait %v: give 0 or more", wait)
	}
	id = l.newID()
	// Waiting is measured by the machine's monotonic clock: the injected one
	// may stand still.
	end := time.Now().Add(wait)
	for {
		ok, err = l.try(ctx, id)
		if err != nil {
			return "", false, l.failed("acquire", err)
		}
		if ok {
			return id, true, nil
		}
		left := time.Until(end)
		if left <= 0 {
			return "", false, nil
		}
		if err = pause(ctx, min(left, lockPause)); err != nil {
			return "", false, l.failed("acquire", err)
		}
	}
}

// try sets the lock with its expiry, or sees to it that the present one has an
// expiry.
func (l *Lock) try(ctx context.Context, id string) (bool, error) {
	ok, err := l.rdb.SetNX(ctx, l.key, id, l.lockTimeout).Result()
	if err != nil || ok {
		return ok, err
	}
	ttl, err := l.rdb.PTTL(ctx, l.key).Result()
	if err != nil || ttl != noExpiry {
		return false, err
	}
	// If the lock changes hands just now, the next holder gets the same
	// time-out as it has itself, from a moment later.
	return false, l.rdb.PExpire(ctx, l.key, l.lockTimeout).Err()
}

// noExpiry is go-redis's way to say that a key has no expiry.
const noExpiry = -1 * time.Nanosecond

// Release gives the lock back, by comparing under WATCH and deleting under
// MULTI. It returns true if id held it, and false if it had timed out, whether
// or not another client has it now; that client's lock is left alone.
func (l *Lock) Release(ctx context.Context, id string) (bool, error) {
	if err := cmp.Or(made(l != nil && l.rdb != nil), validID(id)); err != nil {
		return false, err
	}
	for {
		released, err := l.deleteOwn(ctx, id)
		// The key changed between WATCH and EXEC: it ran out, or got another
		// expiry. Look again who has it.
		if !errors.Is(err, redis.TxFailedErr) {
			return released, l.failed("release", err)
		}
	}
}

func (l *Lock) deleteOwn(ctx context.Context, id string) (deleted bool, err error) {
	err = l.rdb.Watch(ctx, func(tx *redis.Tx) error {
		holder, err := tx.Get(ctx, l.key).Result()
		if errors.Is(err, redis.Nil) || err == nil && holder != id {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Del(ctx, l.key)
			return nil
		})
		deleted = err == nil
		return err
	}, l.key)
	return deleted, err
}

// failed says what could not be done to which lock; nil stays nil.
func (l *Lock) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("classic: cannot %s (lock %q): %w", what, l.name, err)
}

// pause waits for d or for the end of ctx, and then returns its error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cleanup returns a context for what has to be done although ctx may have
// ended.
func cleanup(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}
