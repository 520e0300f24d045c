package main

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthgrpc"
)

// serve starts a replica, and returns its address and what stops it.
func serve(client *berth.Client, db *database, limit int, way string) (target string, stop func(), err error) {
	var opts []grpc.ServerOption
	if way != "no limit" {
		options := []berthgrpc.Option{berthgrpc.Logger(slog.New(slog.DiscardHandler))} // the table says it
		if way == "observed" {
			options = append(options, berthgrpc.Observe())
		}
		l, err := berthgrpc.NewServerLimit(client, "reports", limit, options...)
		if err != nil {
			return "", nil, err
		}
		opts = append(opts, grpc.ChainUnaryInterceptor(l.Unary))
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := grpc.NewServer(opts...)
	server.RegisterService(&reports, db)
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), server.Stop, nil
}

// database is what all replicas use. With more queries at once than are comfortable, each takes
// longer, and all together, too.
type database struct {
	comfortable int
	takes       time.Duration

	mu        sync.Mutex
	now, peak int // guarded by mu
}

// query takes a while.
func (d *database) query(ctx context.Context) error {
	d.mu.Lock()
	d.now++
	d.peak = max(d.peak, d.now)
	crowd := max(1, float64(d.now)/float64(d.comfortable))
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.now--
	}()
	select {
	case <-time.After(time.Duration(float64(d.takes) * crowd * crowd)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// most is how many queries ran at once.
func (d *database) most() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peak
}

const makeMethod = "/reports.Reports/Make"

// reports is a service written by hand, so that this program needs no generated code.
var reports = grpc.ServiceDesc{
	ServiceName: "reports.Reports",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Make",
		Handler: func(db any, ctx context.Context, decode func(any) error, limit grpc.UnaryServerInterceptor) (any, error) {
			work := func(ctx context.Context, _ any) (any, error) {
				return new(emptypb.Empty), db.(*database).query(ctx)
			}
			req := new(emptypb.Empty)
			if err := decode(req); err != nil || limit == nil {
				if err != nil {
					return nil, err
				}
				return work(ctx, req)
			}
			return limit(ctx, req, &grpc.UnaryServerInfo{Server: db, FullMethod: makeMethod}, work)
		},
	}},
}

// makeReport is a call.
func makeReport(ctx context.Context, conn *grpc.ClientConn) error {
	return conn.Invoke(ctx, makeMethod, new(emptypb.Empty), new(emptypb.Empty))
}
