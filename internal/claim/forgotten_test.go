package claim

import (
	"testing"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

// TestForgottenGrantIsNotTakenForAnother: a server that has lost a hand-off, and made it again,
// renews the new one. Its slot and token are not those that the holder works with.
func TestForgottenGrantIsNotTakenForAnother(t *testing.T) {
	t.Parallel()
	another := func(code protocol.Code, token int64, slot int) protocol.Result {
		return protocol.Result{Code: code, Token: token, Slot: slot, Remaining: ttl}
	}
	look := func(t *protocol.Terms) { t.TTL = time.Hour }
	for name, test := range map[string]struct {
		manual bool
		answer protocol.Result
		state  State
	}{
		"renewed":            {false, renewed, Held},
		"another token":      {false, another(protocol.Renewed, 8, 1), Lost},
		"another slot":       {false, another(protocol.Renewed, 7, 2), Lost},
		"there":              {true, granted(ttl), Held},
		"there, new token":   {true, another(protocol.Granted, 8, 1), Lost},
		"there, new slot":    {true, another(protocol.Granted, 7, 2), Lost},
		"a waiter once more": {true, queued, Lost},
	} {
		l := newLife(look)
		l.Manual = test.manual
		l.Ask(l.now)
		l.answer(granted(time.Hour))
		l.HeardEnd() // a hint that something was lost
		l.answer(test.answer)
		if l.State != test.state {
			t.Errorf("%s: state %v, want %v", name, l.State, test.state)
		}
		if l.State == Lost && l.Err.(*LostError).Cause != Vanished { //nolint:forcetypeassert // as it was given
			t.Errorf("%s: lost by %v", name, l.Err)
		}
		if l.Lease.Token != 7 || l.Lease.Slot != 1 {
			t.Errorf("%s: token %d, slot %d", name, l.Lease.Token, l.Lease.Slot)
		}
	}
	// What was not told to anybody yet may become another one.
	l := newLife(func(t *protocol.Terms) { t.MinReplicas = 1 })
	l.Ask(l.now)
	l.answer(granted(ttl))
	l.answer(another(protocol.Renewed, 8, 2), func(a *Answer) { a.Replicas = 1 })
	if l.State != Held || l.Lease.Token != 8 || l.Lease.Slot != 2 {
		t.Errorf("confirmed: %+v", l.Lease)
	}
}

func renewal(left time.Duration) protocol.Result {
	return protocol.Result{Code: protocol.Renewed, Token: 7, Slot: 1, Remaining: left}
}
