package berthotel

import (
	"testing"
	"time"

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
	hooks, over := o.hooks(), make(chan struct{}, 1)
	told := func(f func(*berth.Lease, time.Duration, error)) func(*berth.Lease, time.Duration, error) {
		return func(l *berth.Lease, held time.Duration, err error) { f(l, held, err); over <- struct{}{} }
	}
	hooks.Released, hooks.Lost = told(hooks.Released), told(hooks.Lost)
	sem, err := store.Client(berth.Hook(hooks)).Semaphore("a", 1)
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
		<-over // the hook of a loss runs in another goroutine, and may outlast the loss
	}
	o.held.Range(func(lease, _ any) bool {
		t.Errorf("kept: %v", lease)
		return true
	})
}
