//go:build unix

package process_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	kids "github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// starved is the role of a process with one CPU and many goroutines that compute.
const starved = "starved"

// hunger is the order to it.
type hunger struct {
	Socket, Prefix string
	TTL            time.Duration
	Goroutines     int
}

// TestBusyProcessKeepsItsLeases: one CPU, and 300 goroutines that compute. Where a few lines on
// go-redis keep a key in such a process, berth keeps its lease. The key lasts half as long: else
// it would be chance which of the two meets the longest wait for the CPU. Where the machine is so
// busy that both are lost, it is tried again, with more time and fewer goroutines.
func TestBusyProcessKeepsItsLeases(t *testing.T) {
	t.Parallel()
	e := testenv.Shared(t)
	computing := 300
	for e.TTL = 4 * time.Second; e.TTL < time.Minute; e.TTL *= 2 {
		p, err := kids.Again(starved, hunger{e.Server.Socket(), e.Prefix, e.TTL, computing})
		e.Must(err)
		e.Cleanup(p.Kill)
		var control, berth bool
		line := (&child{p, e}).line("what was kept")
		if _, err := fmt.Sscanf(line, "control %t berth %t", &control, &berth); err != nil {
			t.Fatalf("the process says %q: %v", line, err)
		}
		p.Kill()
		t.Logf("TTL %v, %d goroutines: %s", e.TTL, computing, line)
		if berth {
			return
		}
		if control {
			t.Fatal("berth lost its lease, and three lines on go-redis kept their key")
		}
		computing /= 2
	}
	t.Error("the machine is too busy to tell: nobody kept anything")
}

// starvedMain keeps a lease and a key for three TTLs, and says which it lost.
func starvedMain(text []byte) int {
	var o hunger
	if err := json.Unmarshal(text, &o); err != nil {
		return complain(err)
	}
	runtime.GOMAXPROCS(1)
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: o.Socket, ReadTimeout: o.TTL, WriteTimeout: o.TTL})
	client, err := berth.New(rdb, berth.Prefix(o.Prefix))
	if err != nil {
		return complain(err)
	}
	s, err := client.Semaphore("starved", 1, berth.TTL(o.TTL))
	if err != nil {
		return complain(err)
	}
	ctx := context.Background()
	lease, err := s.Acquire(ctx)
	if err != nil {
		return complain(err)
	}
	key, half := o.Prefix+":control", o.TTL/2
	if err := rdb.Set(ctx, key, 1, half).Err(); err != nil {
		return complain(err)
	}
	for range o.Goroutines {
		go compute()
	}
	kept, trusted, third := true, time.Now().Add(half), time.NewTicker(half/3)
	for range 18 { // three TTLs
		<-third.C
		sent := time.Now()
		there := rdb.PExpire(ctx, key, half).Val()
		kept = kept && there && time.Now().Before(trusted) // else the answer came too late to rely on it
		trusted = sent.Add(half)
	}
	say("control %v berth %v", kept, lease.Valid())
	return 0
}

// compute keeps a CPU busy for ever. It lets others run each millisecond or so, which is a tenth of
// what Go would let it have: so a turn of all takes a third of a second, and not three.
func compute() {
	for x := rand.Uint64(); ; runtime.Gosched() {
		for range 1 << 20 {
			x = x*x + 1
		}
		if x == 0 {
			say("unlikely")
		}
	}
}
