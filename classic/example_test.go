package classic_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/classic"
)

func ExampleFairUnderLock() {
	server, err := miniredis.Run() // any Redis will do
	if err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	ctx := context.Background()
	sem, err := classic.NewFairUnderLock(rdb, "semaphore:remote", 5)
	if err != nil {
		panic(err)
	}
	id, ok, err := sem.Acquire(ctx) // one try
	switch {
	case err != nil:
		fmt.Println("unknown, a place may be taken until its time-out:", err)
	case !ok:
		fmt.Println("no room, or no lock within 10 ms: try again")
	default:
		properly, err := sem.Release(ctx, id)
		fmt.Println("released properly:", properly, err)
	}
	// Output: released properly: true <nil>
}

// A program on its way from the chapter's semaphore to berth takes a permit of both.
func ExampleFair() {
	store := berthtest.Start() // any Redis will do
	defer store.Close()
	old, err := classic.NewFair(store.Redis(), "semaphore:remote", 5)
	if err != nil {
		panic(err)
	}
	next, err := store.Client().Semaphore("remote", 5)
	if err != nil {
		panic(err)
	}
	call := func(context.Context) error {
		fmt.Println("calling, with a permit of both")
		return nil
	}

	err = next.Do(context.Background(), func(ctx context.Context) error {
		for {
			id, ok, err := old.Acquire(ctx)
			if err != nil {
				return err
			}
			if ok {
				defer old.Release(context.WithoutCancel(ctx), id)
				return call(ctx)
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	fmt.Println(err)
	// Output:
	// calling, with a permit of both
	// <nil>
}
