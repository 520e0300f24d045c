package berthotel_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthotel"
)

func spanNamed(w *world, name string) sdktrace.ReadOnlySpan {
	w.Helper()
	for _, s := range slices.Backward(w.spans.Ended()) {
		if s.Name() == name {
			return s
		}
	}
	w.Fatalf("no span %s has ended", name)
	return nil
}

func TestSpans(t *testing.T) {
	observe(t, func(w *world) {
		sem := w.semaphore("a", 1)
		blocker := w.acquire(sem)
		ctx, job := w.traces.Tracer("test").Start(w.Context(), "job")
		done := make(chan *berth.Lease)
		go func() {
			lease, err := sem.Acquire(ctx)
			if err != nil {
				w.Error(err)
			}
			done <- lease
		}()
		<-time.After(time.Second)
		_ = blocker.Release()
		lease := <-done
		<-time.After(3 * time.Second)
		w.store.Lose(lease)
		synctest.Wait()
		acquire, wait, held := spanNamed(w, "berth.acquire"), spanNamed(w, "berth.wait"), spanNamed(w, "berth.lease")
		if acquire.Parent().SpanID() != job.SpanContext().SpanID() || held.Parent().SpanID() != job.SpanContext().SpanID() {
			w.Error("acquire and lease are not children of the caller's span")
		}
		if wait.Parent().SpanID() != acquire.SpanContext().SpanID() || wait.Events()[0].Name != "berth.place" {
			w.Errorf("the wait is not inside the acquire: %v", wait.Events())
		}
		if len(held.Links()) != 1 || held.Links()[0].SpanContext.SpanID() != acquire.SpanContext().SpanID() {
			w.Errorf("the lease has links %v", held.Links())
		}
		if d := wait.EndTime().Sub(wait.StartTime()); d != time.Second {
			w.Errorf("the wait took %v", d)
		}
		if d := held.EndTime().Sub(held.StartTime()).Round(10 * time.Millisecond); d != 3*time.Second || held.Status().Code != codes.Error {
			w.Errorf("the lease took %v and has status %v", d, held.Status())
		}
		if id := attribute.String("berth.lease.id", lease.ID()); !slices.Contains(held.Attributes(), id) || !slices.Contains(acquire.Events()[0].Attributes, id) {
			w.Error("the lease's id is not on both spans")
		}
		if acquire.Status().Code != codes.Unset {
			w.Errorf("the acquire has status %v", acquire.Status())
		}
	})
}

func TestSpansInsideDoAreChildrenOfTheLease(t *testing.T) {
	observe(t, func(w *world) {
		var inside sdktrace.ReadOnlySpan
		err := w.semaphore("a", 1).Do(w.Context(), func(ctx context.Context) error {
			_, span := w.traces.Tracer("test").Start(ctx, "query")
			span.End()
			inside = spanNamed(w, "query")
			return nil
		})
		if err != nil {
			w.Fatal(err)
		}
		if held := spanNamed(w, "berth.lease"); inside.Parent().SpanID() != held.SpanContext().SpanID() {
			w.Errorf("the parent is %v, and the lease's span %v", inside.Parent().SpanID(), held.SpanContext().SpanID())
		}
	})
}

// TestSpansNameTheServer as the client was given it: a host and a port, or a socket.
func TestSpansNameTheServer(t *testing.T) {
	for addr, want := range map[string][]attribute.KeyValue{
		"db.example:6380": {attribute.String("server.address", "db.example"), attribute.Int("server.port", 6380)},
		"[::1]:6379":      {attribute.String("server.address", "::1"), attribute.Int("server.port", 6379)},
		"/run/redis.sock": {attribute.String("server.address", "/run/redis.sock")},
	} {
		spans := tracetest.NewSpanRecorder()
		hooks, err := berthotel.Hooks(berthotel.TracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))))
		if err != nil {
			t.Fatal(err)
		}
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		defer rdb.Close()
		client, err := berth.New(rdb, berth.Hook(hooks))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		sem, err := client.Semaphore("a", 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _ = sem.TryAcquire(ctx) // nothing is sent
		for _, kv := range want {
			if got := spans.Ended()[0].Attributes(); !slices.Contains(got, kv) {
				t.Errorf("%s: no %v in %v", addr, kv, got)
			}
		}
	}
}

// TestSpansTellOfARate: what a request costs, and what is spent while it waits.
func TestSpansTellOfARate(t *testing.T) {
	observe(t, func(w *world) {
		sem, err := w.semaphore("a", berth.NoLimit).With(berth.Rate(5, time.Minute).Of("tokens"))
		if err != nil {
			w.Fatal(err)
		}
		for range 2 {
			lease, err := sem.Acquire(w.Context(), berth.Cost(3), berth.Cost(3).Of("tokens"), berth.Tenant("acme"))
			if err != nil {
				w.Fatal(err)
			}
			_ = lease.Release()
		}
		wait, acquire := spanNamed(w, "berth.wait"), spanNamed(w, "berth.acquire")
		if place := wait.Events()[0].Attributes; !slices.Contains(place, attribute.Int("berth.rate", 5)) || !slices.Contains(place, attribute.Int("berth.rate.spent", 3)) ||
			!slices.Contains(place, attribute.String("berth.rate.unit", "tokens")) {
			w.Errorf("its place has %v", place)
		}
		cost, tenant := attribute.Int("berth.cost", 3), attribute.String("berth.tenant", "acme")
		if !slices.Contains(acquire.Attributes(), cost) || !slices.Contains(acquire.Attributes(), tenant) {
			w.Errorf("the acquire has %v", acquire.Attributes())
		}
	})
}

func TestSpansOfRefusals(t *testing.T) {
	observe(t, func(w *world) {
		sem := w.semaphore("a", 1)
		w.acquire(sem)
		if _, err := sem.TryAcquire(w.Context()); !errors.Is(err, berth.ErrBusy) {
			w.Fatal(err)
		}
		if s := spanNamed(w, "berth.acquire"); s.Status().Code != codes.Unset || !slices.Contains(s.Attributes(), attribute.String("error.type", "busy")) {
			w.Errorf("a busy try has status %v, %v", s.Status(), s.Attributes())
		}
		if _, err := sem.Acquire(w.Context(), berth.Weight(2)); !errors.Is(err, berth.ErrTooHeavy) {
			w.Fatal(err)
		}
		if s := spanNamed(w, "berth.acquire"); s.Status().Code != codes.Error {
			w.Errorf("a request that is too heavy has status %v", s.Status())
		}
	})
}
