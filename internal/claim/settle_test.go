package claim

import (
	"testing"
	"time"

	"github.com/berth-go/berth/internal/protocol"
)

// TestSettlementIsSentUntilItIsAnswered, with what was said last of each unit.
func TestSettlementIsSentUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	l := newLife()
	held(l)
	settle := func(costs protocol.Costs) {
		t.Helper()
		if effect, err := l.Settle(costs); effect != Send || err != nil {
			t.Fatalf("%b, %v", effect, err)
		}
	}
	settle("tokens:5")
	first := l.sent()
	settle("tokens:6,:2")
	if effect := l.reply(first, protocol.Result{Code: protocol.Settled}); effect != Send || l.State != Held {
		t.Errorf("more was said meanwhile: %b in state %d", effect, l.State)
	}
	second := l.sent()
	if second.Costs != ":2,tokens:6" {
		t.Errorf("the second tells %q", second.Costs)
	}
	if effect := l.Failed(&second, errUnknown, l.now); effect != Send {
		t.Errorf("without an answer: %b", effect)
	}
	if again := l.sent(); again != second {
		t.Errorf("sends %+v, and then %+v", second, again)
	}
	if effect := l.reply(second, protocol.Result{Code: protocol.Settled}); effect != 0 || l.settle.wanted() {
		t.Errorf("at the end: %b, and %q to be told", effect, l.settle.costs)
	}
}

// TestReleaseRepeatsWhatALateCopyMayOverrule: the last word counts, although a settlement before had no
// answer and is executed later. Detach tells it again, too.
func TestReleaseRepeatsWhatALateCopyMayOverrule(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		wait time.Duration // before the last word
		end  func(*life)
		want protocol.Op
	}{
		"release":                        {0, func(l *life) { l.Release(l.now) }, protocol.Op{Verb: protocol.Release, Costs: "tokens:6"}},
		"detach":                         {0, func(l *life) { l.Detach("h.2", l.now) }, protocol.Op{Verb: protocol.Settle, Costs: "tokens:6"}},
		"release, when no copy can come": {protocol.Late, func(l *life) { l.Release(l.now) }, protocol.Op{Verb: protocol.Release}},
	} {
		l := newLife()
		held(l)
		_, _ = l.Settle("tokens:5")
		op := l.sent()
		l.Failed(&op, errUnknown, l.now)
		l.now = l.now.Add(test.wait)
		_, _ = l.Settle("tokens:6")
		if effect := l.reply(l.sent(), protocol.Result{Code: protocol.Settled}); effect != 0 {
			t.Errorf("%s: settled: %b", name, effect)
		}
		test.end(l)
		if op := l.sent(); op.Verb != test.want.Verb || op.Costs != test.want.Costs {
			t.Errorf("%s: sends %+v", name, op)
		}
	}
}

// TestSettlementIsNoReasonToLoseALease: one that the server refuses is dropped, and one of a lease that
// the server does not have tells of the loss.
func TestSettlementIsNoReasonToLoseALease(t *testing.T) {
	t.Parallel()
	l := newLife()
	held(l)
	_, _ = l.Settle("tokens:5")
	op := l.sent()
	if effect := l.Rejected(&op, errRejected, l.now); effect != 0 || l.State != Held || l.settle.costs != "" {
		t.Errorf("refused: %b in state %d", effect, l.State)
	}
	_, _ = l.Settle("tokens:5")
	if l.answer(gone(protocol.Unknown)); l.State != Ended || !sameKind(l.Err, &LostError{Cause: Vanished}) {
		t.Errorf("state %d, %v", l.State, l.Err)
	}
}
