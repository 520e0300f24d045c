package berthgrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/gate"
)

// ServerLimit limits how many calls are served at once, over all processes that use the same name
// and key, and refuses calls that have waited too long. It is safe for concurrent use.
type ServerLimit struct{ limiter *limiter }

// NewServerLimit returns a ServerLimit that lets a server work on limit calls at once, or that many
// for each Key. Servers with the same name share the limit, across replicas and methods. And adds
// more limits. The only error is a *berth.InvalidError.
func NewServerLimit(client *berth.Client, name string, limit int, opts ...Option) (*ServerLimit, error) {
	l, err := newLimiter(client, rule{Name: name, Limit: limit}, gate.Config[*Call]{
		MaxWait: DefaultMaxWait, MaxWaiting: DefaultMaxWaiting, AnswerWithin: DefaultAnswerWithin,
	}, opts)
	if err != nil {
		return nil, err
	}
	return &ServerLimit{l}, nil
}

// Unary is a grpc.UnaryServerInterceptor. It waits for a permit until MaxWait is over or the call's
// context ends, which is at the caller's deadline, and calls next while it holds the permit. It gives
// the permit back when next returns or panics.
//
// If the lease is lost meanwhile, others may get the permit. So next's context ends with the
// *berth.LostError as its cause, and next should return. An error that it then returns becomes
// Aborted. If it returns a response in spite of that, the caller gets it: the work was done.
func (s *ServerLimit) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	l := s.of()
	switch {
	case l == nil:
		return nil, errNotMade
	case l.skips(info.FullMethod):
		return next(ctx, req)
	}
	p, err := l.take(incoming(ctx, info.FullMethod, req))
	if err != nil {
		return nil, err
	}
	defer p.Release()
	ctx, end := p.Bind(ctx, l.tell(p, info.FullMethod))
	defer end()
	resp, err := next(ctx, req)
	return resp, l.answered(p, &Call{info.FullMethod, nil, resp, ctx}, err)
}

// Stream is a grpc.StreamServerInterceptor. It is as Unary, and the stream holds its permit until
// next returns: a stream that lives for a day, to watch something say, is counted for a day.
//
// If the lease is lost meanwhile, the stream's context ends, sending and receiving on it fail at once
// with berth.ErrLost, also if next is blocked in them, and the caller gets Aborted whatever next
// returns: it cannot know whether the stream was whole.
func (s *ServerLimit) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	l := s.of()
	switch {
	case l == nil:
		return errNotMade
	case l.skips(info.FullMethod):
		return next(srv, ss)
	}
	p, err := l.take(incoming(ss.Context(), info.FullMethod, nil))
	if err != nil {
		return err
	}
	defer p.Release()
	tell, lost := l.tell(p, info.FullMethod), make(chan struct{})
	ctx, end := p.Bind(ss.Context(), func() {
		if p.Lost() != nil {
			close(lost)
		}
		tell()
	})
	defer end()
	err = next(srv, &serverStream{ss, ctx, p, func(m any) { l.Answered(p, &Call{info.FullMethod, nil, m, ctx}) }, lost})
	if loss := p.Lost(); loss != nil {
		return &lostCall{loss, err}
	}
	return err
}

// of returns the limiter; nil if s was not made.
func (s *ServerLimit) of() *limiter {
	if s == nil {
		return nil
	}
	return s.limiter
}

// incoming is a call that a server got.
func incoming(ctx context.Context, method string, message any) *Call {
	md, _ := metadata.FromIncomingContext(ctx)
	return &Call{Method: method, Metadata: md, Message: message, ctx: ctx}
}

// serverStream is a stream that holds a permit.
type serverStream struct {
	grpc.ServerStream

	ctx      context.Context //nolint:containedctx // it is the stream's
	permit   *gate.Permit
	answered func(message any)
	lost     <-chan struct{} // closed when the lease is lost
}

// Context implements grpc.ServerStream.
func (s *serverStream) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ServerStream. It fails once the lease is lost.
func (s *serverStream) SendMsg(m any) error {
	s.answered(m) // before: m may be used again then
	return s.until(func() error { return s.ServerStream.SendMsg(m) })
}

// RecvMsg implements grpc.ServerStream. It fails once the lease is lost.
func (s *serverStream) RecvMsg(m any) error {
	return s.until(func() error { return s.ServerStream.RecvMsg(m) })
}

// until calls f and returns when that has returned, or the lease is lost. gRPC has no other way to
// end a call that waits for its peer: f, if it is left behind, returns when the handler has.
func (s *serverStream) until(f func() error) error {
	if lost := s.permit.Lost(); lost != nil {
		return &lostCall{lost, nil}
	}
	if !s.permit.Bound() { // there is none, and so no loss
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-s.lost:
		return &lostCall{s.permit.Lost(), nil}
	}
}
