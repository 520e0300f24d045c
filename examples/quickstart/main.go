// Command quickstart calls a partner's API, whose contract allows 5 requests at once and 60 per
// minute, for customers who share it fairly:
//
//	go run ./quickstart acme
//
// It needs a Redis on this machine. Start it in many terminals, or on many machines with one
// Redis: together they keep the contract.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	customer := "acme"
	if len(os.Args) > 1 {
		customer = os.Args[1]
	}
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	if err := run(ctx, rdb, customer, call); err != nil {
		log.Fatal(err)
	}
	log.Println("done")
}

// run makes one call for a customer.
func run(ctx context.Context, rdb *redis.Client, customer string, call func(context.Context) error) error {
	client, err := berth.New(rdb) // one in each process
	if err != nil {
		return err
	}
	defer client.Close() // gives back what is still held

	api, err := client.Semaphore("partner-api", 5, berth.Rate(60, time.Minute)) // the contract
	if err != nil {
		return err
	}
	return api.Do(ctx, func(ctx context.Context) error { // waits its turn
		return call(ctx) // ctx ends early if the permit is lost
	},
		berth.Tenant(customer), // calls of other customers go in between
		berth.Cost(2))          // this call counts as two of the 60
}

// call takes a second, as a request to the API might.
func call(ctx context.Context) error {
	log.Println("calling")
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
