package claim

import (
	"testing"

	"github.com/berth-go/berth/internal/protocol"
)

func executing(l *life) { l.Do(&protocol.Op{Verb: protocol.Release, ID: "chan.handle"}, l.now) }

// doSteps are those of an operation that takes no permits. Nothing is left of it when it ends, whatever
// its outcome.
var doSteps = []step{
	{"done", executing, func(l *life) Effect { return l.answer(protocol.Result{Code: protocol.Released}) }, Ended, Wake | Report, nil},
	{"done late", executing, func(l *life) Effect {
		first, sent := l.givenUp(TryTimeout)
		return l.late(first, sent, 0, protocol.Result{Code: protocol.Released})
	}, Ended, Wake | Report | TakeBack, nil},
	{"not sent", executing, func(l *life) Effect { return l.Cancel(ErrClosed, l.now) }, Ended, Wake | Report, ErrClosed},
	{"refused", executing, func(l *life) Effect { return l.fails(errRefused) }, Doing, Send, nil},
	{"no answer", executing, func(l *life) Effect { return l.fails(errUnknown) }, Doing, Send, nil},
	{"rejected", executing, func(l *life) Effect { return l.rejected() }, Ended, Wake | Report, errRejected},
	{"rejected after a refusal", executing, func(l *life) Effect { l.fails(errRefused); return l.rejected() }, Ended, Wake | Report, errRejected},
	{"rejected after an unknown outcome", executing, func(l *life) Effect { l.fails(errUnknown); return l.rejected() }, Ended, Wake | Report, protocol.ErrUnknown},
	{"refused to the end", executing, func(l *life) Effect { l.fails(errRefused); return l.over() }, Ended, Wake | Report, errRefused},
	{"refused, and under way again at the end", executing, func(l *life) Effect {
		l.fails(errRefused)
		l.sent()
		return l.over()
	}, Ended, Wake | Report, protocol.ErrUnknown},
	{"unknown, and refused to the end", executing, func(l *life) Effect {
		l.fails(errUnknown)
		l.fails(errRefused)
		return l.over()
	}, Ended, Wake | Report, protocol.ErrUnknown},
	{"under way at the end, while others are answered", executing, func(l *life) Effect {
		l.sent()
		l.Alive = l.now.Add(Timeout)
		return l.over()
	}, Ended, Wake | Report, protocol.ErrUnknown},
	{"closed", executing, func(l *life) Effect { return l.Drop(ErrClosed) }, Ended, Wake | Report, ErrClosed},
	{"closed while under way", executing, func(l *life) Effect { l.sent(); return l.Drop(ErrClosed) }, Ended, Wake | Report, protocol.ErrUnknown},
	{"heard of its end", executing, func(l *life) Effect { return l.HeardEnd() }, Doing, 0, nil},
}

// fails has the claim's operation sent, and fail.
func (l *life) fails(err error) Effect {
	op := l.sent()
	return l.Failed(&op, err, l.now)
}

// rejected has it sent, and rejected.
func (l *life) rejected() Effect {
	op := l.sent()
	return l.Rejected(&op, errRejected, l.now)
}

// over has the time for it pass.
func (l *life) over() Effect {
	l.pass(Timeout)
	return l.Tick(l.now)
}

// TestResultIsThatOfTheFirstCopy: the second finds the lease released by the first.
func TestResultIsThatOfTheFirstCopy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first  error // nil: there is none
		reason protocol.Reason
		want   protocol.Code
	}{
		"released before":               {nil, protocol.WasReleased, protocol.Gone},
		"released after a refusal":      {errRefused, protocol.WasReleased, protocol.Gone},
		"released by the first":         {errUnknown, protocol.WasReleased, protocol.Released},
		"expired after a lost answer":   {errUnknown, protocol.Expired, protocol.Gone},
		"forgotten after a lost answer": {errUnknown, protocol.Unknown, protocol.Gone},
	} {
		l := newLife()
		op := protocol.Op{Verb: protocol.Release, ID: "chan.handle"}
		l.Do(&op, l.now)
		if test.first != nil {
			l.fails(test.first)
		}
		if l.answer(gone(test.reason)); l.Err != nil || op.Result.Code != test.want {
			t.Errorf("%s: %+v, %v, want %d", name, op.Result, l.Err, test.want)
		}
	}
}
