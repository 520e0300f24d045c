package berthgrpc

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/gate"
)

// ClientLimit limits how many calls are under way at once, over all processes that use the same name
// and key. It is safe for concurrent use.
type ClientLimit struct{ limiter *limiter }

// NewClientLimit returns a ClientLimit that lets programs with the same name have limit calls under
// way at once, or that many for each Key. And adds more limits. The only error is a
// *berth.InvalidError.
func NewClientLimit(client *berth.Client, name string, limit int, opts ...Option) (*ClientLimit, error) {
	l, err := newLimiter(client, rule{Name: name, Limit: limit}, gate.Config[*Call]{
		MaxWait: -1, AnswerWithin: DefaultClientAnswerWithin,
	}, opts)
	if err != nil {
		return nil, err
	}
	return &ClientLimit{l}, nil
}

// Unary is a grpc.UnaryClientInterceptor. It waits for a permit until the call's context ends, and
// holds it until the call has ended. A call that gets no permit is not sent; the error is a
// *RefusedError.
//
// If the lease is lost meanwhile, the call is cancelled. Its error is then berth.ErrLost, and Aborted
// to gRPC.
func (c *ClientLimit) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	l := c.of()
	switch {
	case l == nil:
		return errNotMade
	case l.skips(method):
		return next(ctx, method, req, reply, cc, opts...)
	}
	p, err := l.take(outgoing(ctx, method, req))
	if err != nil {
		return err
	}
	defer p.Release()
	ctx, end := p.Bind(ctx, nil)
	defer end()
	var header, trailer metadata.MD
	if l.reads { // else gRPC need not keep them
		opts = append(slices.Clip(opts), grpc.Header(&header), grpc.Trailer(&trailer))
	}
	err = next(ctx, method, req, reply, cc, opts...)
	return l.answered(p, &Call{method, metadata.Join(header, trailer), reply, ctx}, err)
}

// Stream is a grpc.StreamClientInterceptor. It is as Unary, and the stream holds its permit until it
// ends as gRPC has it: when receiving or its header fails, or all was received, when its context
// ends, or the connection is closed. A stream that the caller neither reads to its end nor cancels
// is a leak, and keeps its permit until MaxHold.
func (c *ClientLimit) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	l := c.of()
	switch {
	case l == nil:
		return nil, errNotMade
	case l.skips(method):
		return next(ctx, desc, cc, method, opts...)
	}
	p, err := l.take(outgoing(ctx, method, nil))
	if err != nil {
		return nil, err
	}
	ctx, end := p.Bind(ctx, l.tell(p, method))
	over := sync.OnceFunc(func() {
		end()
		p.Release()
	})
	began := false
	defer func() {
		if !began { // it failed, or panicked
			over()
		}
	}()
	// gRPC calls OnFinish when it has freed what the stream needs; an interceptor that makes its own
	// stream may not, and then the context's end counts.
	stream, err := next(ctx, desc, cc, method, append(slices.Clip(opts), grpc.OnFinish(func(error) { over() }))...)
	if err != nil {
		return nil, explain(p, err)
	}
	began = true
	context.AfterFunc(ctx, over)
	return &clientStream{stream, p, func(m any, err error) error { return l.answered(p, &Call{method, nil, m, ctx}, err) }}, nil
}

// of returns the limiter; nil if c was not made.
func (c *ClientLimit) of() *limiter {
	if c == nil {
		return nil
	}
	return c.limiter
}

// outgoing is a call that a client makes.
func outgoing(ctx context.Context, method string, message any) *Call {
	md, _ := metadata.FromOutgoingContext(ctx)
	return &Call{Method: method, Metadata: md, Message: message, ctx: ctx}
}

// clientStream is a stream that holds a permit.
type clientStream struct {
	grpc.ClientStream

	permit   *gate.Permit
	answered func(message any, err error) error
}

// Header implements grpc.ClientStream.
func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	return md, explain(s.permit, err)
}

// SendMsg implements grpc.ClientStream.
func (s *clientStream) SendMsg(m any) error { return explain(s.permit, s.ClientStream.SendMsg(m)) }

// RecvMsg implements grpc.ClientStream.
func (s *clientStream) RecvMsg(m any) error { return s.answered(m, s.ClientStream.RecvMsg(m)) }
