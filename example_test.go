package berth_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/berthtest"
)

func Example() {
	store := berthtest.Start() // in the place of a Redis
	defer store.Close()
	rdb := store.Redis()
	ctx := context.Background()
	call := func(context.Context) error {
		fmt.Println("calling")
		return nil
	}

	work := func() error {
		client, err := berth.New(rdb) // once in each process; rdb is your redis.UniversalClient
		if err != nil {
			return err
		}
		defer client.Close()

		api, err := client.Semaphore("github-api", 5) // at most 5 at once, in the whole fleet
		if err != nil {
			return err
		}

		return api.Do(ctx, func(ctx context.Context) error { // waits in the queue until ctx ends
			return call(ctx) // this ctx also ends if the lease is lost
		})
	}
	fmt.Println(work())
	// Output:
	// calling
	// <nil>
}

func ExampleSemaphore_Do() {
	store := berthtest.Start()
	defer store.Close()
	client := store.Client()
	reports, err := client.Semaphore("reports", 2, berth.TTL(10*time.Second))
	if err != nil {
		panic(err)
	}

	err = reports.Do(context.Background(), func(ctx context.Context) error {
		lease, _ := berth.FromContext(ctx)
		fmt.Println("slot", lease.Slot(), "of", lease.Limit())
		return nil
	}, berth.Label("monthly"))
	fmt.Println(err)
	// Output:
	// slot 0 of 2
	// <nil>
}

func ExampleSemaphore_TryAcquire() {
	store := berthtest.Start()
	defer store.Close()
	client := store.Client()
	ctx := context.Background()
	job, err := client.Semaphore("nightly", 1)
	if err != nil {
		panic(err)
	}
	first, err := job.TryAcquire(ctx)
	if err != nil {
		panic(err)
	}
	defer first.Release()

	_, err = job.TryAcquire(ctx)
	if busy, ok := errors.AsType[*berth.BusyError](err); ok {
		fmt.Printf("%d of %d in use, %d waiting\n", busy.InUse, busy.Limit, busy.Waiting)
	}
	// Output: 1 of 1 in use, 0 waiting
}

func ExampleWaitError() {
	store := berthtest.Start()
	defer store.Close()
	client := store.Client()
	api, err := client.Semaphore("github-api", 1)
	if err != nil {
		panic(err)
	}
	first, err := api.Acquire(context.Background())
	if err != nil {
		panic(err)
	}
	defer first.Release()

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	lease, err := api.Acquire(ctx)
	if wait, ok := errors.AsType[*berth.WaitError](err); ok && wait.Queued {
		p := wait.Place
		fmt.Printf("%d of %d in use, %d ahead of us\n", p.InUse, p.Limit, p.Ahead)
	}
	if err != nil {
		return
	}
	defer lease.Release()
	// Output: 1 of 1 in use, 0 ahead of us
}

func ExampleLease_Detach() {
	store := berthtest.Start()
	defer store.Close()
	client := store.Client()
	ctx := context.Background()
	sem, err := client.Semaphore("deploy", 1)
	if err != nil {
		panic(err)
	}
	lease, err := sem.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	handle, err := lease.Detach(ctx) // send it to the process that goes on with the work
	if err != nil {
		panic(err)
	}

	resumed, err := client.Adopt(ctx, handle)
	if err != nil {
		panic(err)
	}
	fmt.Println(resumed.Slot() == lease.Slot(), resumed.Token() > lease.Token(), resumed.Release())
	// Output: true true <nil>
}

func ExampleAcquireAll() {
	store := berthtest.Start()
	defer store.Close()
	client := store.Client()
	host, err := client.Semaphore("host:example.org", 3)
	if err != nil {
		panic(err)
	}
	all, err := client.Semaphore("all-downloads", 50)
	if err != nil {
		panic(err)
	}

	leases, err := berth.AcquireAll(context.Background(), host, all) // both, or neither
	if err != nil {
		panic(err)
	}
	defer leases.Release()
	fmt.Println(len(leases), leases.Valid())
	// Output: 2 true
}

// Who needs two limits and gets one holds neither.
func ExampleAcquireAll_failure() {
	store := berthtest.Start()
	defer store.Close()
	ctx, giveUp := context.WithCancel(context.Background())
	client := store.Client(berth.Hook(berth.Hooks{
		Queued: func(context.Context, berth.AcquireInfo, berth.Place) { giveUp() }, // as soon as it would have to wait
	}))
	host, err := client.Semaphore("host:example.org", 1)
	if err != nil {
		panic(err)
	}
	all, err := client.Semaphore("all-downloads", 50)
	if err != nil {
		panic(err)
	}
	other, err := host.Acquire(context.Background())
	if err != nil {
		panic(err)
	}
	defer other.Release()

	_, err = berth.AcquireAll(ctx, all, host)
	fmt.Println(errors.Is(err, context.Canceled))
	_, err = store.Inspector().Show(context.Background(), "all-downloads")
	fmt.Println(errors.Is(err, berthadmin.ErrNotFound)) // nobody holds it
	// Output:
	// true
	// true
}

// A job that hangs loses its lease, and learns why.
func ExampleMaxHold() {
	store := berthtest.Start()
	defer store.Close()
	client := store.Client()
	reports, err := client.Semaphore("reports", 1, berth.MaxHold(500*time.Millisecond))
	if err != nil {
		panic(err)
	}
	err = reports.Do(context.Background(), func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx) // ctx.Err() only says that it was canceled
	})
	if lost, ok := errors.AsType[*berth.LostError](err); ok {
		fmt.Println(lost.Name, "is lost:", lost.Reason)
	}
	// Output: reports is lost: it was held for as long as it may be
}

func ExampleHooks() {
	store := berthtest.Start()
	defer store.Close()
	client := store.Client(berth.Hook(berth.Hooks{
		AcquireDone: func(_ context.Context, a berth.AcquireInfo, _ *berth.Lease, err error) {
			fmt.Println("acquired", a.Name, "for", a.Label, err)
		},
		Released: func(l *berth.Lease, _ time.Duration, err error) { fmt.Println("released", l.Name(), err) },
	}))
	reports, err := client.Semaphore("reports", 2)
	if err != nil {
		panic(err)
	}
	err = reports.Do(context.Background(), func(context.Context) error { return nil }, berth.Label("monthly"))
	fmt.Println(err)
	// Output:
	// acquired reports for monthly <nil>
	// released reports <nil>
	// <nil>
}

// 20 calls at once, and 60 per minute.
func ExampleRate() {
	store := berthtest.Start()
	defer store.Close()
	client := store.Client()
	api, err := client.Semaphore("llm", 20, berth.Rate(60, time.Minute))
	if err != nil {
		panic(err)
	}
	for range 60 {
		lease, err := api.TryAcquire(context.Background())
		if err != nil {
			panic(err)
		}
		if err := lease.Release(); err != nil { // which gives nothing of the rate back
			panic(err)
		}
	}

	_, err = api.TryAcquire(context.Background())
	var busy *berth.BusyError
	fmt.Println(errors.As(err, &busy), busy.InUse, busy.Spent, busy.RetryAfter > 30*time.Second)
	// Output: true 0 60 true
}

// A call says at most how many tokens of a language model it uses, and afterwards how many it was.
func ExampleLease_Settle() {
	store := berthtest.Start()
	defer store.Close()
	client, ctx := store.Client(), context.Background()
	call := func(context.Context) (tokens int, err error) { return 917, nil }

	llm, err := client.Semaphore("llm", 20,
		berth.Rate(60, time.Minute), // calls
		berth.Rate(90_000, time.Minute).Of("tokens"))
	if err != nil {
		panic(err)
	}
	lease, err := llm.Acquire(ctx, berth.Cost(3000).Of("tokens")) // at most
	if err != nil {
		panic(err)
	}
	defer lease.Release()
	used, err := call(lease.Context())
	if err != nil {
		panic(err)
	}
	err = lease.Settle(used, "tokens") // what it really was
	if err != nil {
		panic(err)
	}

	_, err = llm.Acquire(ctx, berth.Cost(100_000).Of("tokens"))
	var heavy *berth.TooHeavyError
	fmt.Println(errors.As(err, &heavy), heavy.Rate, heavy.Unit)
	// Output: true 90000 tokens
}

// A request says what it costs of each rate: here it is one call, and tokens of a language model.
func ExampleCost() {
	store := berthtest.Start()
	defer store.Close()
	client, ctx := store.Client(), context.Background()
	api, err := client.Semaphore("llm", 20,
		berth.Rate(60, time.Minute),
		berth.Rate(90_000, time.Minute).Of("tokens"))
	if err != nil {
		panic(err)
	}
	lease, err := api.Acquire(ctx, berth.Cost(1200).Of("tokens"))
	if err != nil {
		panic(err)
	}
	defer func() { _ = lease.Release() }()
	_, err = api.Acquire(ctx, berth.Cost(100_000).Of("tokens"))
	fmt.Println(errors.Is(err, berth.ErrTooHeavy))
	// Output: true
}

// An API has answered 429: all programs wait.
func ExampleSemaphore_Cooldown() {
	store := berthtest.Start()
	defer store.Close()
	client, ctx := store.Client(), context.Background()
	api, err := client.Semaphore("llm", 20)
	if err != nil {
		panic(err)
	}
	err = api.Cooldown(ctx, 30*time.Second)
	if err != nil {
		panic(err)
	}
	_, err = api.TryAcquire(ctx)
	var busy *berth.BusyError
	fmt.Println(errors.As(err, &busy), busy.Paused, busy.RetryAfter > 20*time.Second)
	// Output: true true true
}

func ExampleLevel() {
	store := berthtest.Start()
	defer store.Close()
	client, ctx, customer := store.Client(), context.Background(), "7"
	tenant, err := client.Semaphore("llm/tenant/"+customer, 2)
	if err != nil {
		panic(err)
	}
	all, err := client.Semaphore("llm", 20, berth.Level(1), berth.Rate(90_000, time.Minute))
	if err != nil {
		panic(err)
	}
	leases, err := berth.AcquireAll(ctx, all, tenant)
	if err != nil {
		panic(err)
	}
	fmt.Println(leases[0].Name(), leases[1].Name(), leases.Release())
	// Output: llm llm/tenant/7 <nil>
}

// A rate alone: any number may run at once.
func ExampleRate_only() {
	store := berthtest.Start()
	defer store.Close()
	client, ctx := store.Client(), context.Background()
	send := func(context.Context) error { return nil }
	mail, err := client.Semaphore("mail", berth.NoLimit, berth.Rate(5, time.Second))
	if err != nil {
		panic(err)
	}
	err = mail.Do(ctx, send)
	fmt.Println(err)
	// Output: <nil>
}

// A customer with many requests leaves room between them for those of others, where there is a
// queue.
func ExampleTenant() {
	store := berthtest.Start()
	defer store.Close()
	client, ctx, customer := store.Client(), context.Background(), "7"
	api, err := client.Semaphore("llm", 20)
	if err != nil {
		panic(err)
	}
	lease, err := api.Acquire(ctx, berth.Tenant(customer))
	if err != nil {
		panic(err)
	}
	defer func() { _ = lease.Release() }()
	st, err := berthadmin.Of(client).Show(ctx, "llm")
	if err != nil {
		panic(err)
	}
	fmt.Println(st.Leases[0].Tenant)
	// Output: 7
}
