package berth_test

import (
	"context"
	"errors"
	"testing"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// TestNoLeaseIsOver: one that a failed Acquire did not return may be released, as defers do.
func TestNoLeaseIsOver(t *testing.T) {
	for name, lease := range map[string]*berth.Lease{"nil": nil, "zero": {}} {
		_, detach := lease.Detach(t.Context())
		for call, err := range map[string]error{
			"Release": lease.Release(), "Renew": lease.Renew(t.Context()), "Detach": detach, "Context": context.Cause(lease.Context()),
		} {
			if !errors.Is(err, berth.ErrReleased) {
				t.Errorf("%s of a %s lease: %v", call, name, err)
			}
		}
		if lease.Valid() || !lease.ValidUntil().IsZero() {
			t.Errorf("a %s lease is valid", name)
		}
	}
}

// TestDoOfNothingTakesNoPermit, and a hook that returns no context stops no request.
func TestDoOfNothingTakesNoPermit(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer(berth.Hook(berth.Hooks{AcquireStart: func(context.Context, berth.AcquireInfo) context.Context { return nil }}))
		s := p.Sem(1)
		e.WantErr(s.Do(e.Ctx, nil), berth.ErrInvalid)
		if keys := e.Keys(); len(keys) > 0 {
			e.Errorf("it left %v", keys)
		}
		e.Must(s.Do(e.Ctx, func(context.Context) error { return nil }))
	})
}

// TestInternalIsForPackagesOfThisModule: others cannot import what makes the key. They can only
// come by one that was not made.
func TestInternalIsForPackagesOfThisModule(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it takes any key")
		}
	}()
	withZero(berth.Internal)
}

func withZero[Key, Result any](f func(Key) Result) Result {
	var key Key
	return f(key)
}
