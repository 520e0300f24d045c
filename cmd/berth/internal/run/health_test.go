package run

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/exit"
)

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Health{}
		want := func(long time.Duration, err error) {
			t.Helper()
			since, why := h.Outage()
			if (err == nil) != since.IsZero() || !errors.Is(why, err) || err != nil && time.Since(since) != long {
				t.Errorf("got %v since %v, want %v for %v", why, time.Since(since), err, long)
			}
		}
		refused := errors.New("refused")
		want(0, nil)

		stuck := h.begin()
		<-time.After(silence)
		want(0, nil) // not yet
		<-time.After(time.Millisecond)
		want(silence+time.Millisecond, errSilent)
		if h.Answered() {
			t.Error("it has answered")
		}

		h.begin()(nil, false)
		want(0, nil)                                // others are answered
		h.begin()(redis.ErrClosed, false)           // says nothing
		h.begin()(context.Canceled, false)          // nor does this
		h.begin()(errReply("NOAUTH please"), false) // an answer
		want(0, nil)
		<-time.After(2 * silence)
		want(2*silence, errSilent)
		stuck(context.Canceled, false)
		want(0, nil)

		h.begin()(refused, false)
		<-time.After(time.Second)
		h.begin()(refused, false)
		want(time.Second, refused) // since the first
		h.begin()(nil, false)
		want(0, nil)
		if !h.Answered() {
			t.Error("it has not answered")
		}

		stuck = h.begin()
		<-time.After(2 * silence)
		want(2*silence, errSilent)
		stuck(os.ErrDeadlineExceeded, false)
		want(2*silence, errSilent) // it began with the call, and not with its end
		h.begin()(nil, false)

		loading := errReply("LOADING Redis is loading the dataset in memory")
		h.begin()(loading, false)
		<-time.After(time.Second)
		h.begin()(nil, true) // that a connection begins says nothing
		want(time.Second, loading)
	})
}

// A call may need a new connection, and a slow Redis answers the handshake first.
func TestAnsweredHandshakeIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Health{}
		h.begin()
		<-time.After(silence)
		h.begin()(nil, true)
		<-time.After(silence)
		if since, why := h.Outage(); !since.IsZero() || why != nil || h.Answered() {
			t.Errorf("got %v since %v, answered: %v", why, since, h.Answered())
		}
		<-time.After(time.Millisecond)
		if since, why := h.Outage(); why != errSilent || time.Since(since) != silence+time.Millisecond {
			t.Errorf("afterwards: %v for %v", why, time.Since(since))
		}
	})
}

type errReply string

func (e errReply) Error() string { return string(e) }
func (errReply) RedisError()     {}

// TestRefusalEndsWhatAsksAgain, once it has lasted; an answer before that is the answer.
func TestRefusalEndsWhatAsksAgain(t *testing.T) {
	refusing := errReply("READONLY You can't write against a read only replica.")
	for name, after := range map[string]time.Duration{"it goes on": time.Hour, "a failover ends": firstWord / 2} {
		synctest.Test(t, func(t *testing.T) {
			h, start := &Health{}, time.Now()
			err := h.UnlessRefused(t.Context(), func(ctx context.Context, _ func()) error {
				h.begin()(refusing, false)
				select {
				case <-ctx.Done():
				case <-time.After(after):
				}
				return ctx.Err()
			})
			if took := time.Since(start); took != min(after, firstWord) || (err == nil) != (after < firstWord) || err != nil && exit.Of(err) != exit.Unavailable {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		})
	}
}

// TestAnswerAtTheEndIsTheAnswer: what f has learned just as the refusal ends its context is not hidden.
func TestAnswerAtTheEndIsTheAnswer(t *testing.T) {
	lost := &berth.LostError{}
	for want, answer := range map[error]func(ctx context.Context) error{
		lost:             func(context.Context) error { return lost },
		berth.ErrRefused: func(ctx context.Context) error { return &berth.WaitError{Err: ctx.Err()} },
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &Health{}
			err := h.UnlessRefused(t.Context(), func(ctx context.Context, _ func()) error {
				h.begin()(errReply("READONLY You can't write against a read only replica."), false)
				<-ctx.Done()
				return answer(ctx)
			})
			if !errors.Is(err, want) || errors.Is(err, context.Canceled) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
}
