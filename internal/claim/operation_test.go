package claim

import (
	"testing"

	"github.com/berth-go/berth/internal/protocol"
)

// operations are what is sent in each state.
var operations = []struct {
	name string
	from func(*life)
	want protocol.Op
}{
	{"asking", asking, protocol.Op{Verb: protocol.Acquire, ID: "chan.secret-1"}},
	{"queued", waiting, protocol.Op{Verb: protocol.Heartbeat, ID: "chan.secret-1", TTL: heartbeat}},
	{"confirming", confirming, protocol.Op{Verb: protocol.Renew, ID: "chan.secret-1", TTL: ttl}},
	{"held, a look", held, protocol.Op{Verb: protocol.Heartbeat, ID: "chan.secret-1"}},
	{"held, to be renewed", func(l *life) { held(l); l.Renew(l.now) }, protocol.Op{Verb: protocol.Renew, ID: "chan.secret-1", TTL: ttl}},
	{"adopting", adopting, protocol.Op{Verb: protocol.Move, ID: "chan.handle", To: "chan.secret-1", TTL: ttl}},
	{"detaching", detaching, protocol.Op{Verb: protocol.Move, ID: "chan.secret-1", To: "chan.handle", TTL: ttl}},
	{"leaving", releasing, protocol.Op{Verb: protocol.Release, ID: "chan.secret-1"}},
	{"leaving, a copy on its way", func(l *life) {
		asking(l)
		l.Failed(&protocol.Op{Verb: protocol.Acquire}, errUnknown, l.now)
		l.Cancel(ErrReleased, l.now)
	}, protocol.Op{Verb: protocol.Release, ID: "chan.secret-1", Flag: true, Costs: protocol.Nothing}},
	{"leaving, no copy any more", func(l *life) {
		asking(l)
		l.Failed(&protocol.Op{Verb: protocol.Acquire}, errUnknown, l.now)
		l.Cancel(ErrReleased, l.now)
		l.pass(protocol.Late)
	}, protocol.Op{Verb: protocol.Release, ID: "chan.secret-1", Costs: protocol.Nothing}},
	{"leaving, granted and not seen", func(l *life) {
		asking(l)
		l.answer(granted(ttl))
		l.Cancel(ErrReleased, l.now)
	}, protocol.Op{Verb: protocol.Release, ID: "chan.secret-1", Costs: protocol.Nothing}},
	{"leaving, settled", func(l *life) {
		held(l)
		_, _ = l.Settle("tokens:917")
		l.Release(l.now)
	}, protocol.Op{Verb: protocol.Release, ID: "chan.secret-1", Costs: "tokens:917"}},
	{"held, to be settled", func(l *life) { held(l); _, _ = l.Settle("tokens:917") }, protocol.Op{Verb: protocol.Settle, ID: "chan.secret-1", Costs: "tokens:917"}},
	{"held, to be settled and renewed", func(l *life) {
		held(l)
		_, _ = l.Settle("tokens:917")
		l.Renew(l.now)
	}, protocol.Op{Verb: protocol.Renew, ID: "chan.secret-1", TTL: ttl}},
	{"detaching, to be settled", func(l *life) {
		held(l)
		_, _ = l.Settle("tokens:917")
		l.Detach("chan.handle", l.now)
	}, protocol.Op{Verb: protocol.Settle, ID: "chan.secret-1", Costs: "tokens:917"}},
	{"detaching, settled", func(l *life) {
		held(l)
		_, _ = l.Settle("tokens:917")
		l.Detach("chan.handle", l.now)
		l.answer(protocol.Result{Code: protocol.Settled})
	}, protocol.Op{Verb: protocol.Move, ID: "chan.secret-1", To: "chan.handle", TTL: ttl}},
	{"detaching, settled otherwise meanwhile", func(l *life) {
		held(l)
		_, _ = l.Settle("tokens:917")
		first := l.sent()
		_, _ = l.Settle("tokens:900")
		l.Detach("chan.handle", l.now)
		l.reply(first, protocol.Result{Code: protocol.Settled})
	}, protocol.Op{Verb: protocol.Settle, ID: "chan.secret-1", Costs: "tokens:900"}},
	{"detaching, gone", func(l *life) {
		held(l)
		_, _ = l.Settle("tokens:917")
		l.Detach("chan.handle", l.now)
		l.answer(gone(protocol.Unknown))
	}, protocol.Op{Verb: protocol.Move, ID: "chan.secret-1", To: "chan.handle", TTL: ttl}},
	{"detaching, settlement refused", func(l *life) {
		held(l)
		_, _ = l.Settle("tokens:917")
		l.Detach("chan.handle", l.now)
		op := l.sent()
		l.Rejected(&op, errRefused, l.now)
	}, protocol.Op{Verb: protocol.Move, ID: "chan.secret-1", To: "chan.handle", TTL: ttl}},
	{"leaving, perhaps detached", func(l *life) {
		detaching(l)
		l.Failed(&protocol.Op{Verb: protocol.Move}, errUnknown, l.now)
		l.Cancel(ErrReleased, l.now)
	}, protocol.Op{Verb: protocol.Release, ID: "chan.handle", Flag: true}},
	{"leaving, perhaps adopted", func(l *life) {
		adopting(l)
		l.Failed(&protocol.Op{Verb: protocol.Move}, errUnknown, l.now)
		l.Cancel(ErrReleased, l.now)
	}, protocol.Op{Verb: protocol.Release, ID: "chan.secret-1", Flag: true}},
}

// TestOperationOfEachState: what is sent in a state is what that state wants,
// whatever was wanted before.
func TestOperationOfEachState(t *testing.T) {
	t.Parallel()
	for _, test := range operations {
		l := newLife()
		test.from(l)
		op, ok := l.Op(l.now)
		op.Terms = nil
		if !ok || op != test.want {
			t.Errorf("%s: %+v, %v, want %+v", test.name, op, ok, test.want)
		}
	}
	for name, from := range map[string]func(*life){"lost": lost, "ended": func(l *life) { l.Cancel(ErrReleased, l.now) }} {
		l := newLife()
		from(l)
		if op, ok := l.Op(l.now); ok {
			t.Errorf("%s: sends %+v", name, op)
		}
	}
}
