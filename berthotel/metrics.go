package berthotel

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/berth-go/berth"
)

// buckets are for waits and holds of a millisecond to an hour, in seconds.
var buckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600}

// meters are the instruments.
type meters struct {
	names    *names
	inUse    metric.Int64UpDownCounter
	waiting  metric.Int64UpDownCounter
	wait     metric.Float64Histogram
	hold     metric.Float64Histogram
	granted  metric.Int64Counter
	lost     metric.Int64Counter
	refused  metric.Int64Counter
	observed metric.Int64Counter
}

func newMeters(m metric.Meter, n *names) (*meters, error) {
	var errs [8]error
	all := &meters{names: n}
	all.inUse, errs[0] = m.Int64UpDownCounter("berth.client.permits.in_use",
		metric.WithUnit("{permit}"), metric.WithDescription("Permits that this process holds."))
	all.waiting, errs[1] = m.Int64UpDownCounter("berth.client.requests.waiting",
		metric.WithUnit("{request}"), metric.WithDescription("Requests of this process that stand in line."))
	all.wait, errs[2] = m.Float64Histogram("berth.client.wait.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the call of Acquire to its end."), metric.WithExplicitBucketBoundaries(buckets...))
	all.hold, errs[3] = m.Float64Histogram("berth.client.hold.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the grant of a lease to its end."), metric.WithExplicitBucketBoundaries(buckets...))
	all.granted, errs[4] = m.Int64Counter("berth.client.leases.granted",
		metric.WithUnit("{lease}"), metric.WithDescription("Leases that this process was granted."))
	all.lost, errs[5] = m.Int64Counter("berth.client.leases.lost",
		metric.WithUnit("{lease}"), metric.WithDescription("Leases that this process lost."))
	all.refused, errs[6] = m.Int64Counter("berth.client.requests.refused",
		metric.WithUnit("{request}"), metric.WithDescription("Requests of this process that were turned down."))
	all.observed, errs[7] = m.Int64Counter("berth.client.requests.observed",
		metric.WithUnit("{request}"), metric.WithDescription("Requests of this process that passed in any case, by what would have become of them."))
	return all, errors.Join(errs[:]...)
}

// waits counts a request into or out of the queue.
func (m *meters) waits(ctx context.Context, name string, by int64) {
	m.waiting.Add(ctx, by, metric.WithAttributes(m.names.of(name)))
}

// asked counts a request that has ended.
func (m *meters) asked(ctx context.Context, a berth.AcquireInfo, err error) {
	name := m.names.of(a.Name)
	attrs := metric.WithAttributes(name)
	if err == nil {
		m.granted.Add(ctx, 1, attrs)
		m.inUse.Add(ctx, int64(a.Weight), attrs)
	}
	if a.Observed != 0 { // it has neither waited nor been refused
		m.observed.Add(ctx, 1, metric.WithAttributes(name, outcomeKey.String(a.Observed.String())))
		return
	}
	if err != nil {
		kind := kindOf(err)
		attrs = metric.WithAttributes(name, errorKey.String(cmp.Or(heldBack(err), kind)))
		if kind != "cancelled" && kind != "timeout" { // the caller's own end is no refusal
			m.refused.Add(ctx, 1, attrs)
		}
	}
	m.wait.Record(ctx, a.Waited.Seconds(), attrs)
}

// ended counts a lease that has ended.
func (m *meters) ended(ctx context.Context, l *berth.Lease, held time.Duration, err error) {
	name := m.names.of(l.Name())
	attrs := metric.WithAttributes(name)
	m.inUse.Add(ctx, -int64(l.Weight()), attrs)
	if !clean(err) {
		attrs = metric.WithAttributes(name, errorKey.String(kindOf(err)))
	}
	if errors.Is(err, berth.ErrLost) {
		m.lost.Add(ctx, 1, attrs)
	}
	m.hold.Record(ctx, held.Seconds(), attrs)
}

// clean reports whether the holder ended the lease, whether or not Redis then accepted
// the release.
func clean(err error) bool {
	return err == nil || !errors.Is(err, berth.ErrLost) && !errors.Is(err, berth.ErrClosed)
}

// kinds name errors in the attribute error.type; the first that matches counts.
// ErrUnreachable comes first because it may wrap a time-out that is not the caller's.
var kinds = []struct {
	err  error
	kind string
}{
	{berth.ErrRefused, "refused_by_redis"}, // also where the wait was ended as if Redis were silent
	{berth.ErrUnreachable, "unreachable"},
	{berth.ErrCorrupt, "corrupt"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "cancelled"},
	{berth.ErrBusy, "busy"},
	{berth.ErrQueueFull, "queue_full"},
	{berth.ErrTooHeavy, "too_heavy"},
	{berth.ErrEvicted, "evicted"},
	{berth.ErrClosed, "closed"},
}

func kindOf(err error) string {
	if lost, ok := errors.AsType[*berth.LostError](err); ok {
		return kindOfLoss(lost.Reason)
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.kind
		}
	}
	return "_OTHER" // as the semantic conventions have it
}

// heldBack tells what kept everybody out, for a request that got no permit: a pause or a limit of 0,
// or the rate. "": neither did, or it is not known.
func heldBack(err error) string {
	var s *berth.Status
	if busy, ok := errors.AsType[*berth.BusyError](err); ok {
		s = &busy.Status
	} else if wait, ok := errors.AsType[*berth.WaitError](err); ok && wait.Queued {
		s = &wait.Place.Status
	}
	switch {
	case s == nil || errors.Is(err, berth.ErrUnreachable) || errors.Is(err, berth.ErrRefused):
		return ""
	case s.Paused || s.Limit == 0:
		return "paused"
	case s.RetryAfter > 0:
		return "rate_spent"
	}
	return ""
}

func kindOfLoss(r berth.LostReason) string {
	switch r {
	case berth.LostExpired:
		return "expired"
	case berth.LostUntrusted:
		return "untrusted"
	case berth.LostMaxHold:
		return "max_hold"
	case berth.LostVanished:
		return "vanished"
	case berth.LostReleased:
		return "released"
	case berth.LostAdopted:
		return "adopted"
	case berth.LostEvicted:
		return "evicted"
	}
	return "_OTHER"
}
