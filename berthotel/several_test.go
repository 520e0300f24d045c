package berthotel_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthotel"
	"github.com/berth-go/berth/berthtest"
)

// TestSeveralProviders: a client that was given the hooks of two reports everything to both.
func TestSeveralProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var given []berth.ClientOption
		var readers []*sdkmetric.ManualReader
		var spans []*tracetest.SpanRecorder
		for i := range 2 {
			readers, spans = append(readers, sdkmetric.NewManualReader()), append(spans, tracetest.NewSpanRecorder())
			hooks, err := berthotel.Hooks(
				berthotel.MeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(readers[i]))),
				berthotel.TracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans[i]))))
			if err != nil {
				t.Fatal(err)
			}
			given = append(given, berth.Hook(hooks))
		}
		sem, err := berthtest.New(t).Client(given...).Semaphore("a", 1)
		if err != nil {
			t.Fatal(err)
		}
		first, err := sem.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { _ = first.Release() })
		second, err := sem.Acquire(t.Context()) // waits
		if err != nil {
			t.Fatal(err)
		}
		_ = second.Release()
		synctest.Wait()

		want := []string{
			"berth.client.hold.duration{berth.semaphore.name=a} 2 in 1.000 s",
			"berth.client.leases.granted{berth.semaphore.name=a} 2",
			"berth.client.wait.duration{berth.semaphore.name=a} 2 in 1.000 s",
		}
		for i := range 2 {
			if got, err := read(t.Context(), readers[i]); err != nil || !slices.Equal(got, want) {
				t.Errorf("provider %d was told %q (%v), want %q", i, got, err, want)
			}
			if ended := len(spans[i].Ended()); ended != len(spans[i].Started()) || ended != 5 { // two acquires, two leases, a wait
				t.Errorf("provider %d has %d spans, of %d that began", i, ended, len(spans[i].Started()))
			}
		}
	})
}
