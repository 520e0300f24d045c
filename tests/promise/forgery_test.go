package promise_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/testkit/testenv"
)

// Messages are hints. Who may only publish makes no grant and ends no lease, by what
// the names of channels tell; and even who knows an id is believed only what is possible.
func TestForgedMessagesGrantNothingAndEndNothing(t *testing.T) {
	testenv.Each(t, func(e *testenv.Env) {
		p, q := e.Peer(), e.Peer()
		held := e.Hold(p.Sem(1))
		r := e.Queue(q.Sem(1))
		key := e.Prefix + ":{" + testenv.Name + "}"
		publish := func(line string) {
			channels, err := e.Redis.PubSubChannels(e.Ctx, e.Prefix+":inbox:*").Result()
			e.Must(err)
			if len(channels) < 2 {
				e.Fatalf("channels %q", channels)
			}
			for _, c := range channels {
				e.Must(e.Redis.Publish(e.Ctx, c, key+"\n"+line).Err())
			}
		}
		channel := func(id string) string { return id[:8] }
		id := e.Show().Queue[0].ID
		const token = 1_000_000
		for _, guess := range []string{channel(id), channel(id) + "-1", channel(id) + ".-1", channel(id) + ".1", "*"} {
			publish(fmt.Sprintf("g %s 0 %d 1", guess, token))
			publish("x " + guess + " 3")
		}
		for _, grant := range []string{
			"-7 1000000 1", "1 1000000 1", "0 9007199254740991 1", "0 9007199254740993 1", "0 0 1", "0 -1 1", "0 1000000 0", "0 1000000 99999999999",
			"0 1000000 1 more", "0 1000000", "x y z",
		} {
			before := q.Net.Count("EVALSHA")
			publish("g " + id + " " + grant)
			for q.Net.Count("EVALSHA") == before { // it asks the server
				select {
				case <-r.Done:
					e.Fatalf("%q was believed: lease %v, error %v", grant, r.Lease, r.Err)
				case <-time.After(e.Tick()):
				}
			}
			r.Waits()
		}
		for range 100 {
			publish("x " + id + " 3")
			publish("x " + held.ID() + " 3")
		}
		r.Waits()
		e.Holds(held)
		if !held.Valid() || held.Context().Err() != nil || e.Show().Waiting != 1 {
			e.Errorf("after forged ends: valid %v, %v, %+v", held.Valid(), held.Context().Err(), e.Show())
		}
		e.Release(held)
		e.Release(r.Granted())
	})
}
