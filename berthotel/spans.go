package berthotel

import (
	"context"
	"net"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/berth-go/berth"
)

func (o *observer) startAcquire(ctx context.Context, a berth.AcquireInfo) (context.Context, trace.Span) {
	attrs := append(server(a.Server),
		nameKey.String(a.Name),
		attribute.Int("berth.weight", a.Weight),
		attribute.Int("berth.cost", a.Cost),
		attribute.Bool("berth.try", a.Try),
	)
	attrs = append(attrs, limit(a.Limit)...)
	if a.Tenant != "" {
		attrs = append(attrs, attribute.String("berth.tenant", a.Tenant))
	}
	return o.tracer.Start(ctx, "berth.acquire", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
}

// server returns the attributes of an address: a host and a port, or the path of a socket.
func server(addr string) []attribute.KeyValue {
	if addr == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(addr)
	number, nerr := strconv.Atoi(port)
	if err != nil || nerr != nil {
		return []attribute.KeyValue{attribute.String("server.address", addr)}
	}
	return []attribute.KeyValue{attribute.String("server.address", host), attribute.Int("server.port", number)}
}

// limit is the attribute of a limit, if it is one.
func limit(n int) []attribute.KeyValue {
	if n == berth.NoLimit {
		return nil
	}
	return []attribute.KeyValue{attribute.Int("berth.limit", n)}
}

// addPlace records the request's place in the queue, at first and after each change.
func addPlace(wait trace.Span, p berth.Place) {
	attrs := []attribute.KeyValue{
		attribute.Int("berth.ahead", p.Ahead),
		attribute.Int("berth.in_use", p.InUse),
		attribute.Int("berth.waiting", p.Waiting),
	}
	if p.Rate > 0 {
		attrs = append(attrs, attribute.Int("berth.rate", p.Rate), attribute.Int("berth.rate.spent", p.Spent),
			attribute.String("berth.rate.unit", p.Unit), attribute.String("berth.rate.window", p.Window.String()))
	}
	wait.AddEvent("berth.place", trace.WithAttributes(attrs...))
}

func endAcquire(span trace.Span, a berth.AcquireInfo, l *berth.Lease, err error) {
	if a.Observed != 0 {
		span.SetAttributes(outcomeKey.String(a.Observed.String()))
	}
	switch {
	case err == nil:
		span.AddEvent("berth.granted", trace.WithAttributes(leaseAttributes(l)...))
	case a.Observed == 0: // else the request goes on, and nothing has failed
		fail(span, err)
	}
	span.End()
}

// fail marks a span as failed, unless its error is a usual result: a TryAcquire that
// found no room, or a caller that gave up.
func fail(span trace.Span, err error) {
	kind := kindOf(err)
	span.SetAttributes(errorKey.String(kind))
	if kind != "busy" && kind != "cancelled" {
		span.SetStatus(codes.Error, err.Error())
	}
}

func leaseAttributes(l *berth.Lease) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("berth.lease.id", l.ID()),
		attribute.Int64("berth.lease.token", l.Token()),
		attribute.Int("berth.lease.slot", l.Slot()),
	}
}

// startLease starts the span for the time in which the lease is held. It is a sibling of
// berth.acquire, not its child, because the acquire is over.
func (o *observer) startLease(r *request, l *berth.Lease) trace.Span {
	_, span := o.tracer.Start(r.caller, "berth.lease",
		trace.WithLinks(trace.Link{SpanContext: r.acquire.SpanContext()}),
		trace.WithAttributes(nameKey.String(l.Name()), attribute.Int("berth.weight", l.Weight())),
		trace.WithAttributes(limit(l.Limit())...),
		trace.WithAttributes(leaseAttributes(l)...))
	return span
}

func endLease(span trace.Span, err error) {
	if !clean(err) {
		span.AddEvent("berth.lost")
		fail(span, err)
	}
	span.End()
}
