package berthgrpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthgrpc"
)

func TestServerWorksOnLimitCallsAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		g := make(gate)
		w.start(&service{unary: g.wait}, w.server(2, berthgrpc.MaxWait(time.Minute)))
		var done []<-chan error
		for range 3 {
			done = append(done, w.begin(w.Context()))
		}
		w.want("work", 2, 1)
		close(g)
		for _, one := range done {
			if err := <-one; err != nil {
				t.Error(err)
			}
		}
		w.want("work", 0, 0)
	})
}

func TestRefusalSaysWhenToComeBack(t *testing.T) {
	bubble(t, func(w *world) {
		g := make(gate)
		w.start(&service{unary: g.wait}, w.server(1))
		holds := w.begin(w.Context())
		began := time.Now()
		err := w.call(w.Context())
		if wantCode(t, err, codes.ResourceExhausted) < time.Second || time.Since(began) != berthgrpc.DefaultMaxWait {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		w.want("work", 1, 0)
		close(g)
		if err := <-holds; err != nil {
			t.Error(err)
		}
	})
}

// TestCallersDeadlineBoundsTheWait on the server, too: nobody waits for a caller that has gone.
func TestCallersDeadlineBoundsTheWait(t *testing.T) {
	bubble(t, func(w *world) {
		g := make(gate)
		w.start(&service{unary: g.wait}, w.server(1, berthgrpc.MaxWait(-1)))
		holds := w.begin(w.Context())
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		wantCode(t, w.call(ctx), codes.DeadlineExceeded)
		w.want("work", 1, 0)
		close(g)
		<-holds
	})
}

func TestPanickingHandlerGivesItsPermitBack(t *testing.T) {
	bubble(t, func(w *world) {
		l := w.server(1).server
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was lost")
				}
			}()
			_, _ = l.Unary(w.Context(), nil, unaryInfo, func(context.Context, any) (any, error) { panic("a bug") })
		}()
		w.want("work", 0, 0)
	})
}

func TestHandlersErrorIsTheCallers(t *testing.T) {
	bubble(t, func(w *world) {
		w.start(&service{unary: func(context.Context) error { return errors.New("no such thing") }}, w.server(1))
		wantCode(t, w.call(w.Context()), codes.Unknown)
		w.want("work", 0, 0)
	})
}

// TestHealthChecksNeedNoPermit, nor do tools that ask what the server has; a server that is busy is
// healthy.
func TestHealthChecksNeedNoPermit(t *testing.T) {
	ask := func(w *world) (health, reflection error) {
		_, health = healthpb.NewHealthClient(w.conn).Check(w.Context(), &healthpb.HealthCheckRequest{})
		stream, err := reflectionpb.NewServerReflectionClient(w.conn).ServerReflectionInfo(w.Context())
		if err != nil {
			return health, err
		}
		_ = stream.CloseSend()
		for err == nil {
			_, err = stream.Recv()
		}
		return health, ended(err)
	}
	bubble(t, func(w *world) {
		g := make(gate)
		w.start(&service{unary: g.wait}, w.server(1, berthgrpc.MaxWait(0)))
		holds := w.begin(w.Context())
		if health, reflection := ask(w); health != nil || reflection != nil {
			t.Errorf("health %v, reflection %v", health, reflection)
		}
		close(g)
		<-holds
	})
	bubble(t, func(w *world) {
		g := make(gate)
		w.start(&service{unary: g.wait}, w.server(1, berthgrpc.MaxWait(0), berthgrpc.Skip(nil)))
		holds := w.begin(w.Context())
		health, reflection := ask(w)
		wantCode(t, health, codes.ResourceExhausted)
		wantCode(t, reflection, codes.ResourceExhausted)
		close(g)
		<-holds
	})
}

func TestStreamHoldsItsPermitUntilTheHandlerReturns(t *testing.T) {
	bubble(t, func(w *world) {
		w.start(&service{}, w.server(1, berthgrpc.MaxWait(0)))
		stream, err := w.calls.FullDuplexCall(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := stream.Send(&testpb.StreamingOutputCallRequest{}); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			w.want("work", 1, 0)
			<-time.After(10 * time.Minute)
		}
		wantCode(t, w.call(w.Context()), codes.ResourceExhausted)
		_ = stream.CloseSend()
		if _, err := stream.Recv(); ended(err) != nil {
			t.Error(err)
		}
		w.want("work", 0, 0)
	})
}

// TestCallerThatGoesEndsItsStream, and gives the permit back.
func TestCallerThatGoesEndsItsStream(t *testing.T) {
	bubble(t, func(w *world) {
		w.start(&service{}, w.server(1))
		ctx, cancel := context.WithCancel(w.Context())
		if _, err := w.calls.FullDuplexCall(ctx); err != nil {
			t.Fatal(err)
		}
		w.want("work", 1, 0)
		cancel()
		w.want("work", 0, 0)
	})
}

func TestLossEndsAUnaryCall(t *testing.T) {
	bubble(t, func(w *world) {
		var cause error
		w.start(&service{unary: func(ctx context.Context) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}}, w.server(1, berthgrpc.MaxHold(time.Minute)))
		began := time.Now()
		wantCode(t, w.call(w.Context()), codes.Aborted)
		if !errors.Is(cause, berth.ErrLost) || time.Since(began) > time.Minute {
			t.Errorf("after %v: %v", time.Since(began), cause)
		}
		if w.log.Count("a lease was lost") != 1 {
			t.Error("the loss was not logged once")
		}
	})
}

// TestResponseInSpiteOfALossReachesTheCaller: the work was done.
func TestResponseInSpiteOfALossReachesTheCaller(t *testing.T) {
	bubble(t, func(w *world) {
		w.start(&service{unary: func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}}, w.server(1, berthgrpc.MaxHold(time.Minute)))
		if err := w.call(w.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestLossEndsAStream that its handler is blocked in, and also one whose handler takes it for the end.
func TestLossEndsAStream(t *testing.T) {
	for name, serve := range map[string]func(stream grpc.ServerStream) error{
		"receiving": func(stream grpc.ServerStream) error {
			err := stream.RecvMsg(new(testpb.StreamingOutputCallRequest))
			if !errors.Is(err, berth.ErrLost) {
				return errors.New("it received")
			}
			return err
		},
		"sending": func(stream grpc.ServerStream) error {
			big := &testpb.StreamingOutputCallResponse{Payload: &testpb.Payload{Body: make([]byte, 1<<20)}}
			for {
				if err := stream.SendMsg(big); err != nil {
					return err
				}
			}
		},
		"watching": func(stream grpc.ServerStream) error {
			<-stream.Context().Done()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				leases, returned := make(chan *berth.Lease, 1), make(chan struct{})
				w.start(&service{duplex: func(stream grpc.ServerStream) error {
					lease, _ := berth.FromContext(stream.Context())
					leases <- lease
					defer close(returned)
					return serve(stream)
				}}, w.server(1))
				stream, err := w.calls.FullDuplexCall(w.Context())
				if err != nil {
					t.Fatal(err)
				}
				w.want("work", 1, 0)
				w.store.Lose(<-leases)
				<-time.After(berth.DefaultTTL)
				select {
				case <-returned: // though the caller has neither sent nor received anything
				default:
					t.Error("the handler goes on")
				}
				for err == nil {
					_, err = stream.Recv()
				}
				wantCode(t, err, codes.Aborted)
				w.want("work", 0, 0)
			})
		})
	}
}
