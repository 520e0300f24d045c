//go:build testall

package berthgrpc_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthgrpc"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// busy counts what runs at once, over all servers, for each tenant.
type busy struct {
	mu        sync.Mutex
	now, peak map[string]int // guarded by mu
}

// work is done by a call while it holds its permit.
func (b *busy) work(ctx context.Context) error {
	who := tenant(ctx)
	b.mu.Lock()
	b.now[who]++
	b.peak[who] = max(b.peak[who], b.now[who])
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.now[who]--
	}()
	select {
	case <-time.After(time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TestLimitHoldsOverServersUnderLoad: three servers on a real Redis share a limit for each tenant,
// while hundreds of callers make unary calls and streams, give up, and are refused.
func TestLimitHoldsOverServersUnderLoad(t *testing.T) {
	const limit, callers, each = 3, 300, 20
	redisServer, b := redistest.Start(t), &busy{now: map[string]int{}, peak: map[string]int{}}
	var conns []testpb.TestServiceClient
	var client *berth.Client
	for range 3 {
		client = newClient(t, redisServer)
		conns = append(conns, loaded(t, client, limit, &service{
			unary: b.work,
			duplex: func(s grpc.ServerStream) error {
				if err := b.work(s.Context()); err != nil {
					return err
				}
				return echo(s)
			},
		}))
	}
	var done, refused, gaveUp atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := range each {
				ctx := metadata.AppendToOutgoingContext(t.Context(), "x-tenant", []string{"a", "b"}[i%2])
				switch err := one(ctx, conns[(i+n)%len(conns)], i%3); status.Code(err) {
				case codes.OK:
					done.Add(1)
				case codes.ResourceExhausted:
					refused.Add(1)
				case codes.Canceled, codes.DeadlineExceeded:
					gaveUp.Add(1)
				default:
					t.Errorf("a call ended with %v", err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("done %d, refused %d, given up %d", done.Load(), refused.Load(), gaveUp.Load())
	if done.Load() == 0 || gaveUp.Load() == 0 || done.Load()+refused.Load()+gaveUp.Load() != callers*each {
		t.Errorf("done %d, refused %d, given up %d", done.Load(), refused.Load(), gaveUp.Load())
	}
	for _, who := range []string{"a", "b"} {
		if b.peak[who] != limit {
			t.Errorf("tenant %s: at most %d ran at once, want %d", who, b.peak[who], limit)
		}
	}
	idle(t, client)
}

// one makes one call: a unary one, a stream, or one that is given up on the way.
func one(ctx context.Context, calls testpb.TestServiceClient, kind int) error {
	switch kind {
	case 0:
		_, err := calls.UnaryCall(ctx, &testpb.SimpleRequest{})
		return err
	case 1:
		short, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
		defer cancel()
		if _, err := calls.FullDuplexCall(short); err != nil {
			return err
		}
		<-short.Done()
		return status.FromContextError(short.Err()).Err()
	}
	stream, err := calls.FullDuplexCall(ctx)
	if err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if _, err = stream.Recv(); err != nil {
		return ended(err)
	}
	return nil
}

func newClient(t *testing.T, s *redistest.Server) *berth.Client {
	t.Helper()
	client, err := berth.New(s.Client(t, func(o *redis.Options) { o.PoolSize = 10 }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// loaded starts a server with a limit for each tenant, and connects to it over the loopback.
func loaded(t *testing.T, client *berth.Client, limit int, s *service) testpb.TestServiceClient {
	t.Helper()
	l, err := berthgrpc.NewServerLimit(client, "load", limit, berthgrpc.Key(berthgrpc.ByMetadata("x-tenant")),
		berthgrpc.MaxWaiting(80), berthgrpc.MaxWait(time.Minute), berthgrpc.AnswerWithin(time.Minute), berthgrpc.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(l.Unary), grpc.ChainStreamInterceptor(l.Stream))
	testpb.RegisterTestServiceServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return testpb.NewTestServiceClient(conn)
}

// idle waits until nothing is held any more: permits are given back in the background.
func idle(t *testing.T, client *berth.Client) {
	t.Helper()
	for {
		held := 0
		for s, err := range berthadmin.Of(client).List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			held += s.InUse + s.Waiting
		}
		if held == 0 {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("permits are still held")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
