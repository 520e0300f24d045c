package berthotel

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/berth-go/berth"
)

const scope = "github.com/berth-go/berth/berthotel"

// DefaultMaxNames is how many semaphore names have their own metrics.
const DefaultMaxNames = 100

// Option configures Hooks.
type Option func(*config)

type config struct {
	meters   metric.MeterProvider
	tracers  trace.TracerProvider
	group    func(string) string
	maxNames int
}

// MeterProvider sets where metrics go; the default is otel.GetMeterProvider().
func MeterProvider(p metric.MeterProvider) Option { return func(c *config) { c.meters = p } }

// TracerProvider sets where spans go; the default is otel.GetTracerProvider().
func TracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.tracers = p } }

// Group sets a function that returns the name under which metrics count a semaphore; the
// default is its own name. If names contain keys, such as "api/HOST" of berthhttp, it can
// count related semaphores together. Spans keep the full name.
func Group(f func(name string) string) Option { return func(c *config) { c.group = f } }

// MaxNames bounds how many names have their own metrics; the default is
// DefaultMaxNames. The first n names get a time series each, and the others are counted
// together as "_other", so that untrusted keys cannot flood a backend.
func MaxNames(n int) Option { return func(c *config) { c.maxNames = n } }

// Hooks returns hooks for berth.Hook. It fails with a *berth.InvalidError if an option is nil,
// and with the meter provider's error if that refuses an instrument.
func Hooks(opts ...Option) (berth.Hooks, error) {
	c := config{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(), maxNames: DefaultMaxNames}
	for _, o := range opts {
		if o == nil {
			return berth.Hooks{}, &berth.InvalidError{What: "option", Reason: "it is nil"}
		}
		o(&c)
	}
	o, err := newObserver(c)
	if err != nil {
		return berth.Hooks{}, err
	}
	return o.hooks(), nil
}

// observer turns events into metrics and spans.
type observer struct {
	meters *meters
	tracer trace.Tracer
	held   sync.Map // *berth.Lease → *hold
}

func newObserver(c config) (*observer, error) {
	version := version()
	m, err := newMeters(c.meters.Meter(scope, metric.WithInstrumentationVersion(version)), newNames(c.group, c.maxNames))
	if err != nil {
		return nil, err
	}
	return &observer{meters: m, tracer: c.tracers.Tracer(scope, trace.WithInstrumentationVersion(version))}, nil
}

// version returns the version of this module in the program that uses it, "" if it was not built
// from a release.
func version() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == scope && m.Version != "(devel)" {
			return m.Version
		}
	}
	return ""
}

func (o *observer) hooks() berth.Hooks {
	return berth.Hooks{AcquireStart: o.start, Queued: o.queued, AcquireDone: o.done, Do: o.inside, Released: o.ended, Lost: o.ended}
}

// request follows one acquire. Its hooks run one after the other.
type request struct {
	caller  context.Context //nolint:containedctx // parent of the lease's span
	acquire trace.Span
	wait    trace.Span // nil: not in line
}

// requestKey has the observer, as a client may have the hooks of several.
type requestKey struct{ *observer }

func (o *observer) start(ctx context.Context, a berth.AcquireInfo) context.Context {
	r := &request{caller: ctx}
	ctx, r.acquire = o.startAcquire(ctx, a)
	return context.WithValue(ctx, requestKey{o}, r)
}

func (o *observer) queued(ctx context.Context, a berth.AcquireInfo, p berth.Place) {
	r, ok := ctx.Value(requestKey{o}).(*request)
	if !ok {
		return
	}
	if r.wait == nil {
		_, r.wait = o.tracer.Start(ctx, "berth.wait")
		o.meters.waits(ctx, a.Name, 1)
	}
	addPlace(r.wait, p)
}

func (o *observer) done(ctx context.Context, a berth.AcquireInfo, l *berth.Lease, err error) {
	r, ok := ctx.Value(requestKey{o}).(*request)
	if !ok {
		return
	}
	if r.wait != nil {
		r.wait.End()
		o.meters.waits(ctx, a.Name, -1)
	}
	o.meters.asked(ctx, a, err)
	endAcquire(r.acquire, a, l, err)
	if err != nil {
		return
	}
	h := &hold{observer: o, lease: l, ctx: r.caller, since: time.Now(), span: o.startLease(r, l)}
	o.held.Store(l, h)
	context.AfterFunc(l.Context(), h.over)
}

// inside makes the spans of Do's function children of the lease's span.
func (o *observer) inside(ctx context.Context, l *berth.Lease) context.Context {
	if h, ok := o.held.Load(l); ok {
		return trace.ContextWithSpan(ctx, h.(*hold).span)
	}
	return ctx
}

// ended is both Released and Lost. A lease that is not known was adopted, or its end was
// already recorded.
func (o *observer) ended(l *berth.Lease, held time.Duration, err error) {
	if h, ok := o.held.Load(l); ok {
		h.(*hold).end(held, err)
	}
}

// hold is a lease that was taken here.
type hold struct {
	observer *observer
	lease    *berth.Lease
	ctx      context.Context //nolint:containedctx // for exemplars
	since    time.Time
	span     trace.Span
	once     sync.Once
}

// over records an end of which no hook may tell: the client was closed, or the lease
// detached. A Release ends the context before it asks Redis; its hook follows, with a
// loss that it may find there.
func (h *hold) over() {
	cause := context.Cause(h.lease.Context())
	if errors.Is(cause, berth.ErrReleased) && !errors.Is(cause, berth.ErrDetached) {
		return
	}
	h.end(time.Since(h.since), cause)
}

// end records the first of several reports of the lease's end. The others wait for that,
// so that the end is recorded when Release returns.
func (h *hold) end(held time.Duration, err error) {
	h.once.Do(func() {
		h.observer.meters.ended(h.ctx, h.lease, held, err)
		endLease(h.span, err)
		h.observer.held.Delete(h.lease)
	})
}
