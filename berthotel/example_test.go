package berthotel_test

import (
	"context"
	"fmt"
	"regexp"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthotel"
	"github.com/berth-go/berth/berthtest"
)

// What one granted and one refused request leave behind. A program would use
// exporters; here the metrics and spans are read and printed, durations left out.
func Example() {
	reader, spans := sdkmetric.NewManualReader(), tracetest.NewInMemoryExporter()
	hooks, err := berthotel.Hooks(
		berthotel.MeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))),
		berthotel.TracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))),
	)
	if err != nil {
		panic(err)
	}
	store := berthtest.Start() // stands in for Redis
	defer store.Close()
	sem, err := store.Client(berth.Hook(hooks)).Semaphore("reports", 1)
	if err != nil {
		panic(err)
	}

	ctx := context.Background()
	_ = sem.Do(ctx, func(ctx context.Context) error {
		_, err := sem.TryAcquire(ctx)
		return err
	})

	metrics, err := read(ctx, reader)
	if err != nil {
		panic(err)
	}
	duration := regexp.MustCompile(`in [0-9.]+ s`)
	for _, line := range metrics {
		fmt.Println(duration.ReplaceAllString(line, "in … s"))
	}
	for _, span := range spans.GetSpans() {
		fmt.Println("span", span.Name)
	}
	// Output:
	// berth.client.hold.duration{berth.semaphore.name=reports} 1 in … s
	// berth.client.leases.granted{berth.semaphore.name=reports} 1
	// berth.client.requests.refused{berth.semaphore.name=reports,error.type=busy} 1
	// berth.client.wait.duration{berth.semaphore.name=reports,error.type=busy} 1 in … s
	// berth.client.wait.duration{berth.semaphore.name=reports} 1 in … s
	// span berth.acquire
	// span berth.acquire
	// span berth.lease
}

func ExampleHooks() {
	store := berthtest.Start()
	defer store.Close()
	rdb := store.Redis()

	hooks, err := berthotel.Hooks() // otel's global providers, unless options set others
	if err != nil {
		panic(err)
	}
	client, err := berth.New(rdb, berth.Hook(hooks))
	if err != nil {
		panic(err)
	}
	fmt.Println(client.Close())
	// Output: <nil>
}
