// Package berthgrpc limits how many gRPC calls run at once, and how many per minute, over all
// processes of a fleet, by berth's semaphores. Its interceptors are for servers and clients, for
// unary calls and streams.
//
// A server limits what it works on, over all replicas, and for each tenant, user or method. A call
// waits up to a bound, and within the deadline of its caller; then it is refused with
// ResourceExhausted and a RetryInfo:
//
//	limit, err := berthgrpc.NewServerLimit(client, "reports", 20,
//		berthgrpc.Key(berthgrpc.ByMetadata("x-tenant")))
//	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
//
// A client sends at most so many calls at once. A call waits in the queue until its context ends:
//
//	limit, err := berthgrpc.NewClientLimit(client, "partner-api", 5)
//	conn, err := grpc.NewClient(target, grpc.WithChainUnaryInterceptor(limit.Unary), grpc.WithChainStreamInterceptor(limit.Stream))
//
// A call, a stream too, holds its permit for as long as it lives. Its context ends when the lease is
// lost, and the call then fails with Aborted; berth.FromContext returns the lease. While Redis cannot
// be reached, calls fail with Unavailable, or pass if FailOpen is set. With Observe all calls pass,
// and what would have become of them is counted.
//
// Keys may come from untrusted clients, as with berthhttp: see docs/grpc.md.
package berthgrpc
