package berthotel

import (
	"testing"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
)

// TestNothingIsKept of leases that have ended.
func TestNothingIsKept(t *testing.T) {
	o, err := newObserver(config{meters: metricnoop.NewMeterProvider(), tracers: tracenoop.NewTracerProvider()})
	if err != nil {
		t.Fatal(err)
	}
	store := berthtest.New(t)
	sem, err := store.Client(berth.Hook(o.hooks())).Semaphore("a", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(*berth.Lease){func(l *berth.Lease) { _ = l.Release() }, store.Lose} {
		lease, err := sem.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := o.held.Load(lease); !ok {
			t.Fatal("a lease that is held is not known")
		}
		end(lease)
		_ = lease.Release()
	}
	o.held.Range(func(lease, _ any) bool {
		t.Errorf("kept: %v", lease)
		return true
	})
}
