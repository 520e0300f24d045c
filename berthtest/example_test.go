package berthtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
)

// What does a worker do when its lease is lost? In a test there is a t, and New(t)
// takes the place of Start and Close.
func Example() {
	store := berthtest.Start()
	defer store.Close()
	sem, err := store.Client().Semaphore("jobs", 1)
	if err != nil {
		panic(err)
	}

	err = sem.Do(context.Background(), func(ctx context.Context) error {
		lease, _ := berth.FromContext(ctx)
		store.Lose(lease)
		<-ctx.Done() // where a worker would work
		return context.Cause(ctx)
	})
	fmt.Println("lost:", errors.Is(err, berth.ErrLost))
	// Output: lost: true
}

// A lease outlives an outage that is shorter than its TTL.
func ExampleStore_Down() {
	store := berthtest.Start()
	defer store.Close()
	sem, err := store.Client().Semaphore("jobs", 1)
	if err != nil {
		panic(err)
	}
	lease, err := sem.Acquire(context.Background())
	if err != nil {
		panic(err)
	}

	store.Down()
	fmt.Println("away, valid:", lease.Valid())
	store.Up()
	fmt.Println("back, released:", lease.Release() == nil)
	// Output:
	// away, valid: true
	// back, released: true
}

// work is a worker that looks at its context.
func work(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestWorkerStopsWhenItsLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		sem, err := store.Client().Semaphore("jobs", 1)
		if err != nil {
			t.Fatal(err)
		}
		err = sem.Do(t.Context(), func(ctx context.Context) error {
			lease, _ := berth.FromContext(ctx)
			store.Lose(lease)
			return work(ctx) // must come back soon, with context.Cause(ctx)
		})
		if !errors.Is(err, berth.ErrLost) {
			t.Errorf("Do returned %v", err)
		}
	})
}
