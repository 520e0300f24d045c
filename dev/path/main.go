// Command path acquires one lease of a warm semaphore, and exits. scripts/path builds it so that it
// counts which functions that took.
package main

import (
	"context"
	"log"
	"runtime/coverage"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func main() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "embedded", Dialer: redistest.Embedded(miniredis.NewMiniRedis())})
	client, err := berth.New(rdb)
	must(err)
	sem, err := client.Semaphore("path", 1)
	must(err)
	for range 10 {
		lease, err := sem.Acquire(ctx)
		must(err)
		must(lease.Release())
	}
	must(coverage.ClearCounters())
	_, err = sem.Acquire(ctx)
	must(err)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
