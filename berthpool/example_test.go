package berthpool_test

import (
	"context"
	"fmt"

	"github.com/berth-go/berth/berthpool"
	"github.com/berth-go/berth/berthtest"
)

func Example() {
	store := berthtest.Start()
	defer store.Close()
	client := store.Client()
	api, err := client.Semaphore("github-api", 5) // at most 5 at once, in the whole fleet
	if err != nil {
		panic(err)
	}
	pool, err := berthpool.New(api, 4) // of which this process keeps 4 at most
	if err != nil {
		panic(err)
	}
	defer pool.Close()

	for range 3 {
		loan, err := pool.Acquire(context.Background()) // from memory, but for the first
		if err != nil {
			panic(err)
		}
		fmt.Println("slot", loan.Slot(), "valid", loan.Valid())
		loan.Release()
	}
	fmt.Printf("%+v\n", pool.Stats())
	// Output:
	// slot 0 valid true
	// slot 0 valid true
	// slot 0 valid true
	// {Leases:1 Idle:1 Waiting:0 Requests:0}
}
