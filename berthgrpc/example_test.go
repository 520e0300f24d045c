package berthgrpc_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthgrpc"
	"github.com/berth-go/berth/berthtest"
)

// A server that works on one call of each tenant at once. To have something to call without
// generated code, it counts health checks, which are not counted by default.
func Example() {
	store := berthtest.Start() // stands in for Redis
	defer store.Close()
	if err := serve(store.Client()); err != nil {
		panic(err)
	}
	// Output:
	// busy: ResourceExhausted
	// free: OK
}

func serve(client *berth.Client) error {
	limit, err := berthgrpc.NewServerLimit(client, "reports", 1, // at once, over all replicas
		berthgrpc.Key(berthgrpc.ByMetadata("x-tenant")), // for each tenant
		berthgrpc.MaxWait(0),
		berthgrpc.Skip(nil))
	if err != nil {
		return err
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(limit.Unary),
		grpc.ChainStreamInterceptor(limit.Stream))
	defer server.Stop()
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = server.Serve(listener) }()
	return call(listener.Addr().String())
}

func call(target string) error {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	calls := healthpb.NewHealthClient(conn)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watch, err := calls.Watch(ctx, &healthpb.HealthCheckRequest{}) // a stream holds its permit
	if err != nil {
		return err
	}
	if _, err := watch.Recv(); err != nil { // it has its permit
		return err
	}
	_, err = calls.Check(ctx, &healthpb.HealthCheckRequest{})
	fmt.Println("busy:", status.Code(err))
	cancel()
	for err != nil { // until the server knows that the stream has ended
		_, err = calls.Check(context.Background(), &healthpb.HealthCheckRequest{})
	}
	fmt.Println("free:", status.Code(err))
	return nil
}

// A client that makes at most 5 calls at once, in all its processes together, and 600 a minute, of
// which a long one costs ten.
func ExampleClientLimit() {
	store := berthtest.Start()
	defer store.Close()
	conn, err := dial(store.Client(), "127.0.0.1:1")
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	// Output:
}

func dial(client *berth.Client, target string) (*grpc.ClientConn, error) {
	costs := map[string]int{"/partner.API/Export": 10}
	limit, err := berthgrpc.NewClientLimit(client, "partner-api", 5,
		berthgrpc.Rate(600, time.Minute),
		berthgrpc.Cost(func(c *berthgrpc.Call) int { return max(costs[c.Method], 1) }))
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(limit.Unary),
		grpc.WithChainStreamInterceptor(limit.Stream))
}
