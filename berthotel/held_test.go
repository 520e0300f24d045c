package berthotel

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthtest"
)

// ends are the ways in which a lease can end.
var ends = map[string]func(*berthtest.Store, *berth.Client, *berth.Lease){
	"released": func(_ *berthtest.Store, _ *berth.Client, l *berth.Lease) { _ = l.Release() },
	"lost":     func(s *berthtest.Store, _ *berth.Client, l *berth.Lease) { s.Lose(l) },
	"lost, as Release finds": func(s *berthtest.Store, _ *berth.Client, l *berth.Lease) {
		s.DropMessages(true)
		_ = berthadmin.Of(s.Client()).ForceEvict(context.Background(), l.Name(), l.ID())
		_ = l.Release()
	},
	"detached": func(_ *berthtest.Store, _ *berth.Client, l *berth.Lease) { _, _ = l.Detach(context.Background()) },
	"detached without an answer": func(s *berthtest.Store, _ *berth.Client, l *berth.Lease) {
		s.Slow(time.Hour)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = l.Detach(ctx)
		s.Slow(0)
	},
	"closed": func(_ *berthtest.Store, c *berth.Client, _ *berth.Lease) { _ = c.Close() },
	"closed during Release": func(s *berthtest.Store, c *berth.Client, l *berth.Lease) {
		s.Slow(time.Hour)
		go func() { _ = l.Release() }()
		synctest.Wait()
		_ = c.Close()
		s.Slow(0)
	},
}

// TestNothingIsKept of leases that have ended, in whatever way.
func TestNothingIsKept(t *testing.T) {
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, err := newObserver(config{meters: metricnoop.NewMeterProvider(), tracers: tracenoop.NewTracerProvider()})
				if err != nil {
					t.Fatal(err)
				}
				store := berthtest.New(t)
				client := store.Client(berth.Hook(o.hooks()))
				sem, err := client.Semaphore("a", 1)
				if err != nil {
					t.Fatal(err)
				}
				lease, err := sem.Acquire(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := o.held.Load(lease); !ok {
					t.Fatal("a lease that is held is not known")
				}
				end(store, client, lease)
				_ = lease.Release()
				synctest.Wait()
				if _, ok := o.held.Load(lease); ok {
					t.Error("it is kept")
				}
			})
		})
	}
}
