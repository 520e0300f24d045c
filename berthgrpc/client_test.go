package berthgrpc_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthgrpc"
)

func TestClientSendsLimitCallsAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		g, served := make(gate), make(chan struct{}, 3)
		w.start(&service{unary: func(ctx context.Context) error {
			served <- struct{}{}
			return g.wait(ctx)
		}}, w.caller(2))
		var done []<-chan error
		for range 3 {
			done = append(done, w.begin(w.Context()))
		}
		w.want("api", 2, 1)
		if len(served) != 2 {
			t.Errorf("%d calls were sent", len(served))
		}
		close(g)
		for _, one := range done {
			if err := <-one; err != nil {
				t.Error(err)
			}
		}
		w.want("api", 0, 0)
	})
}

func TestClientWaitsUntilItsContextEnds(t *testing.T) {
	bubble(t, func(w *world) {
		g := make(gate)
		w.start(&service{unary: g.wait}, w.caller(1))
		holds := w.begin(w.Context())
		ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
		defer cancel()
		err := w.call(ctx)
		wantCode(t, err, codes.DeadlineExceeded)
		why, ok := errors.AsType[*berthgrpc.RefusedError](err)
		if !ok || why.Name != "api" || why.Ahead != 0 || why.Waited != time.Hour || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the refusal is %#v", why)
		}
		ctx, cancel = context.WithCancel(w.Context())
		waits := w.begin(ctx)
		w.want("api", 1, 1)
		cancel()
		wantCode(t, <-waits, codes.Canceled)
		w.want("api", 1, 0)
		close(g)
		<-holds
	})
}

// streams are how a stream can end.
var streams = map[string]func(t *testing.T, w *world, cancel func()){
	"all received": func(t *testing.T, w *world, _ func()) {
		stream, err := w.calls.StreamingOutputCall(w.Context(), &testpb.StreamingOutputCallRequest{})
		if err != nil {
			t.Fatal(err)
		}
		w.want("api", 1, 0)
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		w.want("api", 1, 0) // the caller cannot know yet that this was all
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the end is %v", err)
		}
	},
	"one response": func(t *testing.T, w *world, _ func()) {
		stream, err := w.calls.StreamingInputCall(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.want("api", 1, 0)
		if _, err := stream.CloseAndRecv(); err != nil {
			t.Error(err)
		}
	},
	"context": func(t *testing.T, w *world, cancel func()) {
		cancel()
	},
	"server's error": func(t *testing.T, w *world, _ func()) {
		stream, err := w.calls.FullDuplexCall(w.as("refuse me"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		wantCode(t, err, codes.Unknown)
	},
	"not sent": func(t *testing.T, w *world, _ func()) {
		_, err := w.calls.FullDuplexCall(w.as("a value that no header may have: \n"))
		wantCode(t, err, codes.Internal)
	},
	"connection": func(t *testing.T, w *world, _ func()) {
		if _, err := w.calls.FullDuplexCall(w.Context()); err != nil {
			t.Fatal(err)
		}
		w.conn.Close()
	},
}

func TestClientStreamHoldsItsPermitUntilItEnds(t *testing.T) {
	for name, end := range streams {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.start(&service{duplex: func(stream grpc.ServerStream) error {
					if tenant(stream.Context()) == "refuse me" {
						return errors.New("refused")
					}
					return echo(stream)
				}}, w.caller(1))
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				if name == "context" {
					if _, err := w.calls.FullDuplexCall(ctx); err != nil {
						t.Fatal(err)
					}
					w.want("api", 1, 0)
				}
				end(t, w, cancel)
				w.want("api", 0, 0)
			})
		})
	}
}

func TestLossCancelsTheCallOfAClient(t *testing.T) {
	bubble(t, func(w *world) {
		ended := make(chan struct{}, 2)
		wait := func(ctx context.Context) error {
			<-ctx.Done()
			ended <- struct{}{}
			return ctx.Err()
		}
		w.start(&service{unary: wait, duplex: func(s grpc.ServerStream) error { return wait(s.Context()) }}, w.caller(1, berthgrpc.MaxHold(time.Minute)))
		err := w.call(w.Context())
		wantCode(t, err, codes.Aborted)
		if lost, ok := errors.AsType[*berth.LostError](err); !ok || lost.Reason != berth.LostMaxHold {
			t.Errorf("the error is %v", err)
		}
		stream, err := w.calls.FullDuplexCall(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		wantCode(t, err, codes.Aborted)
		if !errors.Is(err, berth.ErrLost) {
			t.Errorf("the stream's error is %v", err)
		}
		<-ended
		<-ended // the server's calls end, too
		w.want("api", 0, 0)
	})
}

// TestForgottenStreamLosesItsPermitAtMaxHold.
func TestForgottenStreamLosesItsPermitAtMaxHold(t *testing.T) {
	bubble(t, func(w *world) {
		w.start(&service{}, w.caller(1, berthgrpc.MaxHold(time.Minute)))
		if _, err := w.calls.FullDuplexCall(w.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.call(w.Context()); err != nil { // waits for it
			t.Error(err)
		}
		if w.log.Count("a lease was lost") != 1 {
			t.Error("nothing tells of the stream")
		}
	})
}
