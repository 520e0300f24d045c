package berthgrpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthgrpc"
)

// model are the options of a limit that counts calls and tokens, of which a call asks for as many as
// its message or metadata say.
func model(opts ...berthgrpc.Option) []berthgrpc.Option {
	tokens := func(c *berthgrpc.Call) int {
		if m, ok := c.Message.(*testpb.SimpleRequest); ok {
			return int(m.GetResponseSize())
		}
		return 500 // a stream's
	}
	return append([]berthgrpc.Option{
		berthgrpc.Rate(60, time.Minute), berthgrpc.Rate(1000, time.Minute).Of("tokens"),
		berthgrpc.Rate(1, time.Minute).Of("api").Burst(3), berthgrpc.Cost(tokens).Of("tokens"), berthgrpc.MaxWait(0),
	}, opts...)
}

// ask makes a unary call for so many tokens.
func (w *world) ask(tokens int32) error {
	_, err := w.calls.UnaryCall(w.Context(), &testpb.SimpleRequest{ResponseSize: tokens})
	return err
}

// converse makes a stream with two messages to the server, and reads it to its end.
func (w *world) converse() {
	w.Helper()
	stream, err := w.calls.FullDuplexCall(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for range 2 {
		if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
			w.Fatal(err)
		}
	}
	_ = stream.CloseSend()
	for err == nil {
		_, err = stream.Recv()
	}
	if ended(err) != nil {
		w.Fatal(err)
	}
}

// TestCostsInUnitsCount beside what PerCall says, and the rate that has no room is told.
func TestCostsInUnitsCount(t *testing.T) {
	bubble(t, func(w *world) {
		label := berthgrpc.PerCall(func(*berthgrpc.Call) []berth.AcquireOption { return []berth.AcquireOption{berth.Label("a call")} })
		calls := berthgrpc.Cost(func(*berthgrpc.Call) int { return 2 })
		w.start(&service{}, w.server(9, model(calls, label)...))
		if err := w.ask(900); err != nil {
			t.Fatal(err)
		}
		w.spent("work", map[string]int{"": 2, "tokens": 900, "api": 1})
		if after := wantCode(t, w.ask(101), codes.ResourceExhausted); after < time.Minute || after > time.Minute+time.Second {
			t.Errorf("it is to come back in %v", after)
		}
		wantCode(t, w.ask(1001), codes.Internal) // never
		for range 2 {
			if err := w.ask(50); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, w.ask(0), codes.ResourceExhausted) // the bucket is empty
	})
}

// TestHandlerSettles what a call and a stream have cost, while they hold their permits.
func TestHandlerSettles(t *testing.T) {
	for _, how := range []string{"call", "stream"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(w *world) {
				settle := func(ctx context.Context) error { return berthgrpc.Settle(ctx, 30, "tokens") }
				w.start(&service{unary: settle, duplex: func(stream grpc.ServerStream) error { return errors.Join(settle(stream.Context()), echo(stream)) }}, w.server(9, model()...))
				if how == "call" {
					if err := w.ask(500); err != nil {
						t.Fatal(err)
					}
				} else {
					w.converse()
				}
				w.spent("work", map[string]int{"": 1, "tokens": 30, "api": 1})
			})
		})
	}
	if err := berthgrpc.Settle(t.Context(), 30, "tokens"); !errors.Is(err, berth.ErrInvalid) {
		t.Errorf("without a permit: %v", err)
	}
}

// TestAnswerSettles: a response, what is in its header or trailer, and the last message of a stream.
func TestAnswerSettles(t *testing.T) {
	byMessage := berthgrpc.SettleBy("tokens", func(answer *berthgrpc.Call) (int, bool) {
		switch m := answer.Message.(type) {
		case *testpb.SimpleResponse:
			return len(m.GetPayload().GetBody()) / 10, answer.Method == testpb.TestService_UnaryCall_FullMethodName
		case *testpb.StreamingOutputCallResponse:
			return len(m.GetPayload().GetBody()), true
		}
		return 0, false
	})
	in := func(name string) berthgrpc.Option { return berthgrpc.SettleBy("tokens", berthgrpc.CostIn(name)) }
	for name, c := range map[string]struct {
		side   string
		opt    berthgrpc.Option
		stream bool
		tokens int
	}{
		"a server's response": {"work", byMessage, false, 50},
		"a server's stream":   {"work", byMessage, true, 8},
		"a client's response": {"api", byMessage, false, 50},
		"a client's stream":   {"api", byMessage, true, 8},
		"a header":            {"api", in("X-Usage"), false, 17},
		"a trailer":           {"api", in("x-usage-late"), false, 3},
		"no number":           {"api", in("x-word"), false, 500},
		"a missing one":       {"api", in("x-missing"), false, 500},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				var l limits
				if c.side == "work" {
					l = w.server(9, model(c.opt)...)
				} else {
					l = w.caller(9, model(c.opt)...)
				}
				w.start(&service{unary: told, duplex: growing}, l)
				if c.stream {
					w.converse()
				} else if err := w.ask(500); err != nil {
					t.Fatal(err)
				}
				w.spent(c.side, map[string]int{"": 1, "tokens": c.tokens, "api": 1})
			})
		})
	}
}

// TestMetadataIsKeptForSettleByAlone: a call without it goes on with its own options.
func TestMetadataIsKeptForSettleByAlone(t *testing.T) {
	bubble(t, func(w *world) {
		for want, opts := range map[int][]berthgrpc.Option{
			1: nil, 3: {berthgrpc.And("wide", 99, berthgrpc.SettleBy("", berthgrpc.CostIn("x-usage")))},
		} {
			got := -1
			err := w.caller(9, opts...).client.Unary(w.Context(), "/test/Method", nil, nil, nil,
				func(_ context.Context, _ string, _, _ any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
					got = len(opts)
					return nil
				}, grpc.WaitForReady(true))
			if err != nil || got != want {
				t.Errorf("%d options, want %d: %v", got, want, err)
			}
		}
	})
}

// told tells what a call has cost, beside its response.
func told(ctx context.Context) error {
	return errors.Join(grpc.SetHeader(ctx, metadata.Pairs("x-usage", "16.2", "x-word", "much")), grpc.SetTrailer(ctx, metadata.Pairs("x-usage-late", "3")))
}

// growing answers the messages of a stream by 4, 8, 12 ... bytes.
func growing(stream grpc.ServerStream) error {
	for n := 4; ; n += 4 {
		if err := stream.RecvMsg(new(testpb.StreamingOutputCallRequest)); err != nil {
			return ended(err)
		}
		if err := stream.SendMsg(&testpb.StreamingOutputCallResponse{Payload: &testpb.Payload{Body: make([]byte, n)}}); err != nil {
			return err
		}
	}
}

// TestWhatCannotBeSettledIsToldOnce, and of a call that has failed nothing is settled.
func TestWhatCannotBeSettledIsToldOnce(t *testing.T) {
	bubble(t, func(w *world) {
		fails := errors.New("no")
		s := &service{}
		w.start(s, w.server(9, model(berthgrpc.SettleBy("pages", func(*berthgrpc.Call) (int, bool) { return 1, true }),
			berthgrpc.SettleBy("tokens", func(*berthgrpc.Call) (int, bool) { return 1, true }))...))
		for range 2 {
			if err := w.ask(100); err != nil {
				t.Fatal(err)
			}
		}
		s.unary = func(context.Context) error { return fails }
		if err := w.ask(100); err == nil {
			t.Fatal("it has not failed")
		}
		w.spent("work", map[string]int{"": 3, "tokens": 102, "api": 3})
		if n := w.log.Count("cannot be settled"); n != 1 {
			t.Errorf("it is told %d times: %s", n, w.log)
		}
	})
}
