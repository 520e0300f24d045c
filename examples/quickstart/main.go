// Command quickstart calls something under a limit of 5: the first program of the README.
package main

import (
	"context"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
)

func main() {
	client, err := berth.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close() // gives back what is still held

	api, err := client.Semaphore("github-api", 5) // at most 5 at once, in the whole fleet
	if err != nil {
		log.Fatal(err)
	}
	err = api.Do(context.Background(), func(ctx context.Context) error { // waits its turn
		log.Println("calling")
		return nil // ctx ends early if the permit is lost
	})
	log.Println("done:", err)
}
