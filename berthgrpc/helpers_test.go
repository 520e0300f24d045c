package berthgrpc_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthgrpc"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// service is what the tests call. A function that is nil answers at once.
type service struct {
	testpb.UnimplementedTestServiceServer

	unary  func(ctx context.Context) error
	duplex func(stream grpc.ServerStream) error
}

func (s *service) UnaryCall(ctx context.Context, req *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if s.unary != nil {
		if err := s.unary(ctx); err != nil {
			return nil, err
		}
	}
	return &testpb.SimpleResponse{Payload: &testpb.Payload{Body: make([]byte, req.GetResponseSize())}}, nil
}

func (s *service) StreamingOutputCall(_ *testpb.StreamingOutputCallRequest, stream grpc.ServerStreamingServer[testpb.StreamingOutputCallResponse]) error {
	return stream.Send(&testpb.StreamingOutputCallResponse{})
}

func (s *service) StreamingInputCall(stream grpc.ClientStreamingServer[testpb.StreamingInputCallRequest, testpb.StreamingInputCallResponse]) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return stream.SendAndClose(&testpb.StreamingInputCallResponse{})
		}
	}
}

func (s *service) FullDuplexCall(stream grpc.BidiStreamingServer[testpb.StreamingOutputCallRequest, testpb.StreamingOutputCallResponse]) error {
	if s.duplex != nil {
		return s.duplex(stream)
	}
	return echo(stream)
}

// echo answers each message of a stream, until the client has sent all.
func echo(stream grpc.ServerStream) error {
	for {
		if err := stream.RecvMsg(new(testpb.StreamingOutputCallRequest)); err != nil {
			return ended(err)
		}
		if err := stream.SendMsg(&testpb.StreamingOutputCallResponse{}); err != nil {
			return err
		}
	}
}

// ended is the error of a stream that was read until err.
func ended(err error) error {
	if err.Error() == "EOF" {
		return nil
	}
	return err
}

// gate holds calls until it is closed, or their context ends.
type gate chan struct{}

func (g gate) wait(ctx context.Context) error {
	select {
	case <-g:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// world is a gRPC server and a connection to it, in a bubble with a store.
type world struct {
	*testing.T

	store  *berthtest.Store
	client *berth.Client
	log    *logs
	conn   *grpc.ClientConn
	calls  testpb.TestServiceClient
}

// limits are the interceptors of a ServerLimit and a ClientLimit; nil: there is none.
type limits struct {
	server *berthgrpc.ServerLimit
	client *berthgrpc.ClientLimit
}

// bubble runs f in a bubble.
func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: berthtest.New(t), log: new(logs)}
		w.client = w.store.Client()
		f(w)
	})
}

// start starts a service and a connection with limits.
func (w *world) start(s *service, l limits) {
	listener := bufconn.Listen(1 << 16)
	var opts []grpc.ServerOption
	if l.server != nil {
		opts = append(opts, grpc.ChainUnaryInterceptor(l.server.Unary), grpc.ChainStreamInterceptor(l.server.Stream))
	}
	server := grpc.NewServer(opts...)
	testpb.RegisterTestServiceServer(server, s)
	healthpb.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	go func() { _ = server.Serve(listener) }()
	w.Cleanup(server.Stop)
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
	}
	if l.client != nil {
		dial = append(dial, grpc.WithChainUnaryInterceptor(l.client.Unary), grpc.WithChainStreamInterceptor(l.client.Stream))
	}
	conn, err := grpc.NewClient("passthrough:///test", dial...)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close() })
	w.conn, w.calls = conn, testpb.NewTestServiceClient(conn)
}

// server makes a ServerLimit "work".
func (w *world) server(n int, opts ...berthgrpc.Option) limits {
	w.Helper()
	l, err := berthgrpc.NewServerLimit(w.client, "work", n, append([]berthgrpc.Option{w.log.option()}, opts...)...)
	if err != nil {
		w.Fatal(err)
	}
	return limits{server: l}
}

// caller makes a ClientLimit "api".
func (w *world) caller(n int, opts ...berthgrpc.Option) limits {
	w.Helper()
	l, err := berthgrpc.NewClientLimit(w.client, "api", n, append([]berthgrpc.Option{w.log.option()}, opts...)...)
	if err != nil {
		w.Fatal(err)
	}
	return limits{client: l}
}

// spent checks what is spent of a rate, by its unit.
func (w *world) spent(name string, want map[string]int) {
	w.Helper()
	synctest.Wait()
	st, err := w.store.Inspector().Show(w.Context(), name)
	if err != nil {
		w.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range st.Rates {
		got[r.Unit] = r.Spent
	}
	if !maps.Equal(got, want) {
		w.Errorf("%s: spent are %v, want %v", name, got, want)
	}
}

// call makes a unary call.
func (w *world) call(ctx context.Context) error {
	_, err := w.calls.UnaryCall(ctx, &testpb.SimpleRequest{})
	return err
}

// begin makes a unary call in the background.
func (w *world) begin(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- w.call(ctx) }()
	synctest.Wait()
	return done
}

// as is a context for calls of a tenant.
func (w *world) as(tenant string) context.Context {
	return metadata.AppendToOutgoingContext(w.Context(), "x-tenant", tenant)
}

// want checks how many permits are out and how many calls wait, once nothing in the bubble moves.
func (w *world) want(name string, inUse, waiting int) {
	w.Helper()
	synctest.Wait()
	var s berthadmin.Summary // idle, all is 0
	found, err := berthadmin.Of(w.client).Show(context.Background(), name)
	switch {
	case err == nil:
		s = found.Summary
	case !errors.Is(err, berthadmin.ErrNotFound):
		w.Fatal(err)
	}
	if s.InUse != inUse || s.Waiting != waiting {
		w.Fatalf("%s: %d in use and %d waiting, want %d and %d", name, s.InUse, s.Waiting, inUse, waiting)
	}
}

// wantCode checks the code of a call's error, and returns in how long to come back: -1, it does not tell.
func wantCode(t testing.TB, err error, code codes.Code) time.Duration {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != code {
		t.Fatalf("the call ended with %v, want %v", err, code)
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return -1
}

// logs is a log to look at, in a bubble.
type logs struct{ testenv.Log }

func (l *logs) option() berthgrpc.Option {
	return berthgrpc.Logger(slog.New(slog.NewTextHandler(l, nil)))
}

var unaryInfo = &grpc.UnaryServerInfo{FullMethod: testpb.TestService_UnaryCall_FullMethodName}
