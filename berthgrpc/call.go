package berthgrpc

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/gate"
)

// Call is a call that asks for a permit, as functions such as that of Key see it.
type Call struct {
	Method   string          // in full: "/package.Service/Method"
	Metadata metadata.MD     // that came with the call or goes with it; not to be changed
	Message  any             // the request of a unary call; nil for a stream
	ctx      context.Context //nolint:containedctx // it is the call's
}

// Context returns the context of the call, for example for what authentication has put there.
func (c *Call) Context() context.Context { return c.ctx }

// ByMethod returns the call's method, for Key.
func ByMethod(c *Call) string { return c.Method }

// ByMetadata returns a function, for Key and Tenant, that returns the call's first metadata value of
// that name, or the empty string if there is none.
func ByMetadata(name string) func(*Call) string {
	return func(c *Call) string {
		if v := c.Metadata.Get(name); len(v) > 0 {
			return v[0]
		}
		return ""
	}
}

// HealthOrReflection reports whether a method is one of gRPC's services for health checks and for
// reflection. It is the default of Skip.
func HealthOrReflection(method string) bool {
	return strings.HasPrefix(method, "/grpc.health.") || strings.HasPrefix(method, "/grpc.reflection.")
}

// limiter takes permits for calls.
type limiter struct {
	*gate.Gate[*Call]

	skip  func(method string) bool
	reads bool // the answers, for what calls have cost
}

func newLimiter(client *berth.Client, first rule, defaults gate.Config[*Call], opts []Option) (*limiter, error) {
	c := config{Config: defaults, skip: HealthOrReflection}
	c.Rules, c.Package, c.Calls, c.Context = []rule{first}, "berthgrpc", "calls", (*Call).Context
	for _, o := range opts {
		if o == nil {
			return nil, nilOption()
		}
		o.apply(&c)
	}
	if c.bad != nil {
		return nil, c.bad
	}
	g, err := gate.New(client, c.Config)
	reads := slices.ContainsFunc(c.Rules, func(r rule) bool { return len(r.Settles) > 0 })
	return &limiter{g, c.skip, reads}, err
}

// skips reports whether a call needs no permit.
func (l *limiter) skips(method string) bool { return l.skip != nil && l.skip(method) }

// take waits for the permits of a call.
func (l *limiter) take(c *Call) (*gate.Permit, error) {
	p, why := l.Take(c)
	if why != nil {
		return nil, refused(why)
	}
	return p, nil
}

// answered settles what the answer to a call tells of its cost, unless the call has failed, and
// returns its error.
func (l *limiter) answered(p *gate.Permit, answer *Call, err error) error {
	if err == nil {
		l.Answered(p, answer)
	}
	return explain(p, err)
}

// tell returns a function that tells of the loss of the call's lease.
func (l *limiter) tell(p *gate.Permit, method string) func() {
	return func() {
		if lost := p.Lost(); lost != nil { // and it was not given back by the handler
			l.Logger.Warn("berthgrpc: a lease was lost while its call ran; the call's context has ended", "name", lost.Name, "method", method, "error", lost)
		}
	}
}
