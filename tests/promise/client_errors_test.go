package promise_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

var errOpen = errors.New("the circuit breaker is open")

// breaker is a Limiter, a hook and a provider of credentials that refuse while it is open.
type breaker struct{ open atomic.Bool }

func (b *breaker) Allow() error {
	if b.open.Load() {
		return errOpen
	}
	return nil
}

func (b *breaker) ReportResult(error) {}

func (b *breaker) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *breaker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := b.Allow(); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (b *breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := b.Allow(); err != nil {
			return err
		}
		return next(ctx, cmds)
	}
}

// inTheWay are the parts of a Redis client that may refuse a command before it is sent.
var inTheWay = map[string]func(e *testenv.Env, b *breaker) *testenv.Peer{
	"limiter": func(e *testenv.Env, b *breaker) *testenv.Peer {
		e.Options.Limiter = b
		return e.Peer()
	},
	"hook": func(e *testenv.Env, b *breaker) *testenv.Peer {
		p := e.Peer()
		p.Redis.AddHook(b)
		return p
	},
	"credentials": func(e *testenv.Env, b *breaker) *testenv.Peer {
		e.Options.CredentialsProviderContext = func(context.Context) (string, string, error) { return "", "", b.Allow() }
		return e.Peer()
	},
}

// TestWhatTheRedisClientRefusesIsRefusedAtOnce, and not told as a Redis that does not answer.
func TestWhatTheRedisClientRefusesIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for name, peer := range inTheWay {
		t.Run(name, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) {
				b := &breaker{}
				sem := peer(e, b).Sem(1)
				b.open.Store(true)
				start := time.Now()
				for _, ask := range []func() error{
					func() error { return e.Try(sem) },
					func() error { _, err := sem.Acquire(e.Ctx); return err },
					func() error { return sem.Cooldown(e.Ctx, time.Second) },
				} {
					err := ask()
					for !e.Exact && errors.Is(err, berth.ErrUnreachable) && errors.Is(err, errOpen) {
						err = ask() // the machine did not come to refuse the first attempt in time
					}
					if !errors.Is(err, berth.ErrRefused) || errors.Is(err, berth.ErrUnreachable) || !errors.Is(err, errOpen) {
						t.Errorf("error %v", err)
					}
					if err != nil && !strings.Contains(err.Error(), "the Redis client sent nothing") {
						t.Errorf("%v does not say who refused", err)
					}
				}
				if took := time.Since(start); e.Exact && took > 100*time.Millisecond { // calls after a failure make a small pause
					t.Errorf("it took %v", took)
				}
				b.open.Store(false)
				e.Release(e.Hold(sem))
			})
		})
	}
}

// TestLeaseAndPlaceOutlastABreaker: for those who hold or wait, it is an outage like another.
func TestLeaseAndPlaceOutlastABreaker(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"limiter", "hook"} {
		t.Run(name, func(t *testing.T) {
			testenv.Each(t, func(e *testenv.Env) {
				b := &breaker{}
				sem := inTheWay[name](e, b).Sem(1, berth.TTL(time.Minute))
				held := e.Hold(sem)
				waiter := e.Queue(sem)
				b.open.Store(true)
				e.WantErr(held.Renew(e.Ctx), berth.ErrRefused)
				b.open.Store(false)
				e.Must(e.Renew(held))
				waiter.Waits()
				e.Release(held)
				e.Release(waiter.Granted())
			})
		})
	}
}
