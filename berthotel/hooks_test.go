package berthotel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthotel"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// world is a store, and a client on it that is observed.
type world struct {
	*testing.T

	store  *berthtest.Store
	client *berth.Client
	reader *sdkmetric.ManualReader
	spans  *tracetest.SpanRecorder
	traces *sdktrace.TracerProvider
}

// observe runs f in a bubble.
func observe(t *testing.T, f func(w *world), opts ...berthotel.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: berthtest.New(t), reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
		w.traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w.spans))
		opts = append([]berthotel.Option{
			berthotel.MeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.reader))),
			berthotel.TracerProvider(w.traces),
		}, opts...)
		hooks, err := berthotel.Hooks(opts...)
		if err != nil {
			t.Fatal(err)
		}
		w.client = w.store.Client(berth.Hook(hooks))
		f(w)
	})
}

func (w *world) semaphore(name string, limit int, opts ...berth.Option) *berth.Semaphore {
	w.Helper()
	sem, err := w.client.Semaphore(name, limit, opts...)
	if err != nil {
		w.Fatal(err)
	}
	return sem
}

func (w *world) acquire(sem *berth.Semaphore, opts ...berth.AcquireOption) *berth.Lease {
	w.Helper()
	lease, err := sem.Acquire(w.Context(), opts...)
	if err != nil {
		w.Fatal(err)
	}
	return lease
}

// read returns all metrics as lines "name{attributes} value", sums that are 0
// left out.
func read(ctx context.Context, reader sdkmetric.Reader) ([]string, error) {
	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		return nil, err
	}
	var lines []string
	add := func(name string, set attribute.Set, value string) {
		var attrs []string
		for _, kv := range set.ToSlice() {
			attrs = append(attrs, fmt.Sprintf("%s=%s", kv.Key, kv.Value.AsString()))
		}
		lines = append(lines, fmt.Sprintf("%s{%s} %s", name, strings.Join(attrs, ","), value))
	}
	for _, sm := range all.ScopeMetrics {
		for _, m := range sm.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					if p.Value != 0 {
						add(m.Name, p.Attributes, fmt.Sprint(p.Value))
					}
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, fmt.Sprintf("%d in %.3f %s", p.Count, p.Sum, m.Unit))
				}
			}
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// want compares the metrics, once nothing in the bubble moves any more.
func (w *world) want(lines ...string) {
	w.Helper()
	synctest.Wait()
	got, err := read(w.Context(), w.reader)
	if err != nil {
		w.Fatal(err)
	}
	for i := range lines {
		lines[i] = "berth.client." + lines[i]
	}
	if !slices.Equal(got, lines) {
		w.Errorf("metrics:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

func TestAcquireAndRelease(t *testing.T) {
	observe(t, func(w *world) {
		lease := w.acquire(w.semaphore("a", 5), berth.Weight(3))
		w.want(
			"leases.granted{berth.semaphore.name=a} 1",
			"permits.in_use{berth.semaphore.name=a} 3",
			"wait.duration{berth.semaphore.name=a} 1 in 0.000 s",
		)
		<-time.After(2 * time.Second)
		for range 2 { // the second does nothing
			_ = lease.Release()
			w.want(
				"hold.duration{berth.semaphore.name=a} 1 in 2.000 s",
				"leases.granted{berth.semaphore.name=a} 1",
				"wait.duration{berth.semaphore.name=a} 1 in 0.000 s",
			)
		}
	})
}

// TestReleaseIsRecordedAtOnce, without waiting for other goroutines.
func TestReleaseIsRecordedAtOnce(t *testing.T) {
	observe(t, func(w *world) {
		for i := range 50 {
			_ = w.acquire(w.semaphore("a", 1)).Release()
			got, err := read(w.Context(), w.reader)
			if err != nil || got[0] != fmt.Sprintf("berth.client.hold.duration{berth.semaphore.name=a} %d in 0.000 s", i+1) {
				w.Fatalf("after %d releases: %v, %v", i+1, got, err)
			}
		}
	})
}

func TestWaiting(t *testing.T) {
	observe(t, func(w *world) {
		sem := w.semaphore("a", 1)
		first := w.acquire(sem)
		done := make(chan *berth.Lease)
		go func() { done <- w.acquire(sem) }()
		w.want(
			"leases.granted{berth.semaphore.name=a} 1",
			"permits.in_use{berth.semaphore.name=a} 1",
			"requests.waiting{berth.semaphore.name=a} 1",
			"wait.duration{berth.semaphore.name=a} 1 in 0.000 s",
		)
		<-time.After(4 * time.Second)
		_ = first.Release()
		second := <-done
		w.want(
			"hold.duration{berth.semaphore.name=a} 1 in 4.000 s",
			"leases.granted{berth.semaphore.name=a} 2",
			"permits.in_use{berth.semaphore.name=a} 1",
			"wait.duration{berth.semaphore.name=a} 2 in 4.000 s",
		)
		_ = second.Release()
	})
}

// TestRefusals: each has its own error.type, and the caller's own end is none.
func TestRefusals(t *testing.T) {
	observe(t, func(w *world) {
		sem := w.semaphore("a", 1)
		defer w.acquire(sem).Release()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, _ = sem.TryAcquire(w.Context())
		_, _ = sem.Acquire(w.Context(), berth.QueueLimit(0))
		_, _ = sem.Acquire(w.Context(), berth.Weight(2))
		_, _ = sem.Acquire(ctx)
		_, _ = sem.Acquire(ctx)
		gone, cancel := context.WithCancel(w.Context())
		cancel()
		_, _ = sem.Acquire(gone)
		w.store.Slow(time.Hour) // the calls to Redis time out, the caller does not
		_, _ = sem.TryAcquire(w.Context())
		w.store.Slow(0)
		synctest.Wait()
		got, err := read(w.Context(), w.reader)
		if err != nil {
			w.Fatal(err)
		}
		text := strings.Join(got, "\n")
		for kind, waits := range map[string]string{"busy": "1 in 0.0", "queue_full": "1 in 0.0", "too_heavy": "1 in 0.0", "unreachable": "1 in "} {
			if !strings.Contains(text, "requests.refused{berth.semaphore.name=a,error.type="+kind+"} 1\n") ||
				!strings.Contains(text, "wait.duration{berth.semaphore.name=a,error.type="+kind+"} "+waits) {
				w.Errorf("%s is not counted once, with its wait:\n%s", kind, text)
			}
		}
		for _, line := range []string{"error.type=timeout} 2 in 1.000 s", "error.type=cancelled} 1 in 0.000 s"} {
			if !strings.Contains(text, line) {
				w.Errorf("%q is not in:\n%s", line, text)
			}
		}
		if strings.Count(text, "requests.refused") != 4 || strings.Contains(text, "waiting") {
			w.Errorf("the caller's own end is counted as a refusal, or still waits:\n%s", text)
		}
	})
}

// TestWhatIsHeldBackSaysSo: an operator's pause and limit of 0, and a rate, are no holders that hang.
func TestWhatIsHeldBackSaysSo(t *testing.T) {
	observe(t, func(w *world) {
		in := w.store.Inspector()
		paused, frozen, rated := w.semaphore("paused", 1), w.semaphore("frozen", 1), w.semaphore("rated", 9, berth.Rate(1, time.Hour))
		for _, err := range []error{in.Pause(w.Context(), "paused"), in.Pin(w.Context(), "frozen", 0), w.acquire(rated).Release()} {
			if err != nil {
				w.Fatal(err)
			}
		}
		for _, sem := range []*berth.Semaphore{paused, frozen, rated} {
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			_, _ = sem.Acquire(ctx)
			cancel()
			_, _ = sem.TryAcquire(w.Context())
		}
		got, err := read(w.Context(), w.reader)
		if err != nil {
			w.Fatal(err)
		}
		text := strings.Join(got, "\n")
		for name, kind := range map[string]string{"paused": "paused", "frozen": "paused", "rated": "rate_spent"} {
			attrs := "{berth.semaphore.name=" + name + ",error.type=" + kind + "}"
			if !strings.Contains(text, "wait.duration"+attrs+" 2 in 1.0") || !strings.Contains(text, "requests.refused"+attrs+" 1\n") {
				w.Errorf("%s:\n%s", attrs, text)
			}
		}
	})
}

// TestEnds: however a lease ends, its permits are no longer in use, once.
func TestEnds(t *testing.T) {
	for kind, end := range map[string]func(w *world, l *berth.Lease){
		"expired": func(w *world, l *berth.Lease) { w.store.Lose(l) },
		"evicted": func(w *world, l *berth.Lease) { w.store.Evict(l) },
		"max_hold": func(_ *world, l *berth.Lease) {
			<-l.Context().Done()
		},
		"untrusted": func(w *world, l *berth.Lease) {
			w.store.Down()
			<-l.Context().Done()
			w.store.Up()
		},
		"closed": func(w *world, _ *berth.Lease) { w.client.Close() },
		"": func(w *world, l *berth.Lease) {
			if _, err := l.Detach(context.Background()); err != nil {
				w.Fatal(err)
			}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			observe(t, func(w *world) {
				lease := w.acquire(w.semaphore("a", 1), berth.MaxHold(time.Hour))
				end(w, lease)
				_ = lease.Release()
				synctest.Wait()
				got, err := read(w.Context(), w.reader)
				if err != nil {
					w.Fatal(err)
				}
				text, errorType := strings.Join(got, "\n")+"\n", ""
				if kind != "" {
					errorType = ",error.type=" + kind
				}
				if !strings.Contains(text, "hold.duration{berth.semaphore.name=a"+errorType+"} 1 in") || strings.Contains(text, "in_use") {
					w.Errorf("the end is not counted:\n%s", text)
				}
				lost := "leases.lost{berth.semaphore.name=a" + errorType + "} 1\n"
				if want := kind != "" && kind != "closed"; strings.Contains(text, lost) != want {
					w.Errorf("counted as lost: %v, want %v:\n%s", !want, want, text)
				}
			})
		})
	}
}

// TestLossFoundByReleaseIsCounted once, although Release has ended the lease's context before it
// learned of the loss.
func TestLossFoundByReleaseIsCounted(t *testing.T) {
	observe(t, func(w *world) {
		lease := w.acquire(w.semaphore("a", 1))
		w.store.DropMessages(true)
		if err := berthadmin.Of(w.store.Client()).ForceEvict(w.Context(), "a", lease.ID()); err != nil {
			w.Fatal(err)
		}
		if err := lease.Release(); !errors.Is(err, berth.ErrEvicted) {
			w.Fatalf("Release: %v", err)
		}
		w.want(
			"hold.duration{berth.semaphore.name=a,error.type=evicted} 1 in 0.000 s",
			"leases.granted{berth.semaphore.name=a} 1",
			"leases.lost{berth.semaphore.name=a,error.type=evicted} 1",
			"wait.duration{berth.semaphore.name=a} 1 in 0.000 s",
		)
		if s := spanNamed(w, "berth.lease"); s.Status().Code != codes.Error {
			w.Errorf("the lease's span has status %v", s.Status())
		}
	})
}

func TestNamesAreBounded(t *testing.T) {
	observe(t, func(w *world) {
		for _, name := range []string{"a/1", "a/2", "b/1", "c/1", "d/1"} {
			_ = w.acquire(w.semaphore(name, 1)).Release()
		}
		w.want(
			"hold.duration{berth.semaphore.name=_other} 2 in 0.000 s",
			"hold.duration{berth.semaphore.name=a} 2 in 0.000 s",
			"hold.duration{berth.semaphore.name=b} 1 in 0.000 s",
			"leases.granted{berth.semaphore.name=_other} 2",
			"leases.granted{berth.semaphore.name=a} 2",
			"leases.granted{berth.semaphore.name=b} 1",
			"wait.duration{berth.semaphore.name=_other} 2 in 0.000 s",
			"wait.duration{berth.semaphore.name=a} 2 in 0.000 s",
			"wait.duration{berth.semaphore.name=b} 1 in 0.000 s",
		)
	}, berthotel.MaxNames(2), berthotel.Group(func(name string) string { return strings.Split(name, "/")[0] }))
}

func TestNilOptionIsRefused(t *testing.T) {
	if _, err := berthotel.Hooks(nil); !errors.Is(err, berth.ErrInvalid) {
		t.Errorf("Hooks returned %v, want ErrInvalid", err)
	}
}

// TestDefaultsDoNothing: without providers, hooks are harmless.
func TestDefaultsDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hooks, err := berthotel.Hooks()
		if err != nil {
			t.Fatal(err)
		}
		sem, err := berthtest.New(t).Client(berth.Hook(hooks)).Semaphore("a", 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := sem.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	})
}
