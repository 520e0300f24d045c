package classic_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

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
