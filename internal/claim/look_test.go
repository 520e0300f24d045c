package claim

import (
	"testing"
	"time"

	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// nearest sets when the server says that something may run out, counted from its now.
func nearest(d time.Duration) func(*Answer) {
	return func(a *Answer) { a.Next = a.Now + d.Milliseconds() }
}

// TestWhoLooksWhen: the head of the queue when time may let it in, any other when the one in front
// of it is dead, and neither later than its heartbeat.
func TestWhoLooksWhen(t *testing.T) {
	t.Parallel()
	const soon, ms = 100 * time.Millisecond, time.Millisecond
	beat := born.Add(heartbeat / 3)
	got := born.Add(2 * ms) // the answer to what is sent at first
	for _, test := range []struct {
		name   string
		result protocol.Result
		next   time.Duration
		want   clock.Instant
	}{
		{"the head", protocol.Result{Code: protocol.Queued}, soon, got.Add(soon + ms)},
		{"the head, overdue", protocol.Result{Code: protocol.Queued}, 0, got.Add(ms)},
		{"the head, not before a heartbeat", protocol.Result{Code: protocol.Queued}, time.Minute, beat},
		{"the second", protocol.Result{Code: protocol.Queued, Ahead: 1, Front: soon}, soon / 2, got.Add(soon + ms)},
		{"the second, of this process", protocol.Result{Code: protocol.Queued, Ahead: 1}, soon, beat},
		{"not known", protocol.Result{Code: protocol.Queued, Ahead: -1}, soon, beat},
	} {
		l := newLife()
		l.Ask(l.now)
		l.answer(test.result, nearest(test.next))
		if l.Next() != test.want {
			t.Errorf("%s: %v after it asked, want %v", test.name, l.Next().Sub(born), test.want.Sub(born))
		}
		if test.want < beat && l.Soon(test.want-1) {
			t.Errorf("%s: it looks before there is anything to see", test.name)
		}
		if effect := l.Tick(test.want); effect != Send || l.Next() != clock.Never {
			t.Errorf("%s: effect %v then, and next %v", test.name, effect, l.Next())
		}
	}
}

// TestWaiterThatIsToldLooksThen, whichever of the message and an older answer comes first.
func TestWaiterThatIsToldLooksThen(t *testing.T) {
	t.Parallel()
	const rest = 50 * time.Millisecond
	second := protocol.Result{Code: protocol.Queued, Ahead: 1, Front: time.Second}
	for name, from := range map[string]func(*life) (told clock.Instant){
		"queued": func(l *life) clock.Instant {
			waiting(l)
			l.HeardNext(rest, l.now)
			return l.now
		},
		"asking": func(l *life) clock.Instant {
			asking(l)
			op := l.sent()
			l.HeardNext(rest, l.now)
			told := l.now
			l.reply(op, second)
			return told
		},
		"a heartbeat is under way": func(l *life) clock.Instant {
			waiting(l)
			l.now = l.Next()
			l.Tick(l.now)
			op := l.sent()
			l.pass(time.Millisecond)
			l.HeardNext(rest, l.now)
			told := l.now
			op.Result = second
			l.Answered(&op, &Answer{Sent: l.now.Add(-time.Millisecond), Got: l.now})
			return told
		},
	} {
		l := newLife()
		told := from(l)
		if want := told.Add(rest + time.Millisecond); l.Next() != want {
			t.Errorf("%s: it looks %v after it was told, want %v", name, l.Next().Sub(told), want.Sub(told))
		}
	}
}

// TestAnswerAfterTheMessageCounts: what was asked after the message, and answered, is newer.
func TestAnswerAfterTheMessageCounts(t *testing.T) {
	t.Parallel()
	l := newLife()
	waiting(l)
	l.HeardNext(0, l.now)
	l.now = l.Next()
	l.Tick(l.now)
	l.answer(protocol.Result{Code: protocol.Queued}, nearest(time.Second))
	if want := l.now.Add(time.Second + time.Millisecond); l.Next() != want {
		t.Errorf("it looks after %v, want %v", l.Next().Sub(l.now), want.Sub(l.now))
	}
}

// TestHeadAsksForItsPlace at each look, until it is told that another is in front of it. So who has
// been overtaken looks once more, and no more.
func TestHeadAsksForItsPlace(t *testing.T) {
	t.Parallel()
	l := newLife()
	waiting(l)
	if op := l.sent(); op.Flag {
		t.Error("who is not the head asks for its place")
	}
	l.HeardNext(time.Second, l.now)
	if op := l.sent(); !op.Flag {
		t.Error("the head does not ask for its place")
	}
	l.pass(time.Millisecond)
	l.answer(protocol.Result{Code: protocol.Queued, Ahead: 1}, nearest(time.Second))
	if want := l.now.Add(heartbeat/3 - 2*time.Millisecond); l.Next() != want {
		t.Errorf("it looks after %v, want %v", l.Next().Sub(l.now), want.Sub(l.now))
	}
	if op := l.sent(); op.Flag {
		t.Error("who was overtaken asks for its place")
	}
}

// TestNobodyLooksForAnotherPlace: a claim that lost its place forgets what it was told of that, and
// one that holds is not told.
func TestNobodyLooksForAnotherPlace(t *testing.T) {
	t.Parallel()
	l := newLife()
	waiting(l)
	l.HeardNext(time.Millisecond, l.now)
	l.answer(gone(protocol.Expired))
	l.answer(protocol.Result{Code: protocol.Queued, Ahead: 2})
	if want := l.now.Add(heartbeat/3 - 2*time.Millisecond); l.Next() != want {
		t.Errorf("in a new place it looks after %v, want %v", l.Next().Sub(l.now), want.Sub(l.now))
	}
	l = newLife()
	held(l)
	before := l.Next()
	if effect := l.HeardNext(0, l.now); effect != 0 || l.Next() != before {
		t.Errorf("a holder: effect %v, next %v, want %v", effect, l.Next(), before)
	}
}
