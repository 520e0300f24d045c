package look_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/internal/protocol"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// BenchmarkSample measures what a live view costs the server: its own count of the time
// that commands took. Half of the semaphores are one lease, the others have five
// holders and three waiters.
func BenchmarkSample(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		for what, o := range map[string]berthadmin.SampleOptions{"summaries": {}, "records": {Records: true}} {
			b.Run(fmt.Sprint(what, "/", n), func(b *testing.B) {
				e := testenv.NewBench(b)
				names := furnish(b, e, n)
				eye := e.Inspect(b)
				look := func() {
					for _, err := range eye.Sample(b.Context(), names, o) {
						if err != nil {
							b.Fatal(err)
						}
					}
				}
				look() // so that the server knows the script
				before := busy(b, e)
				for b.Loop() {
					look()
				}
				b.ReportMetric(float64(busy(b, e)-before)/1000/float64(b.N), "server-ms/op")
			})
		}
	}
}

// BenchmarkNames measures a walk through the names of 10,000 semaphores among 100,000
// foreign keys.
func BenchmarkNames(b *testing.B) {
	e := testenv.NewBench(b)
	furnish(b, e, 10000)
	pipe := e.Redis.Pipeline()
	for i := range 100000 {
		pipe.Set(b.Context(), fmt.Sprint("foreign", i), "", 0)
	}
	if _, err := pipe.Exec(b.Context()); err != nil {
		b.Fatal(err)
	}
	eye := e.Inspect(b)
	before := busy(b, e)
	for b.Loop() {
		for cursor, begun := "", false; cursor != "" || !begun; begun = true {
			var err error
			if _, cursor, err = eye.Names(b.Context(), cursor, 1000); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(busy(b, e)-before)/1000/float64(b.N), "server-ms/op")
}

// furnish makes n semaphores, and returns their names.
func furnish(b *testing.B, e *testenv.Bench, n int) (names []string) {
	b.Helper()
	store := protocol.NewStore(e.Redis, e.Prefix, "bench", 1, "host")
	for i := range n {
		names = append(names, fmt.Sprint("api/endpoint-", i))
		ops := []protocol.Op{{Verb: protocol.Acquire, ID: "bench.1", Terms: terms(1)}}
		for j := 2; i%2 == 1 && j <= 8; j++ {
			ops = append(ops, protocol.Op{Verb: protocol.Acquire, ID: fmt.Sprint("bench.", j), Terms: terms(5)})
		}
		if _, err := store.Do(b.Context(), store.Key(names[i]), 0, ops); err != nil {
			b.Fatal(err)
		}
	}
	return names
}

func terms(limit int) *protocol.Terms {
	return &protocol.Terms{Wait: true, Weight: 1, TTL: time.Hour, Heartbeat: time.Hour, QueueLimit: 100, Limit: limit, Label: "worker"}
}

// busy is how many microseconds the server has spent on evalsha and scan. The commands
// inside of a script are in the script's.
func busy(b *testing.B, e *testenv.Bench) (us int64) {
	b.Helper()
	info, err := e.Redis.Info(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if m := regexp.MustCompile(`^cmdstat_(evalsha|eval|scan):.*?usec=(\d+),`).FindStringSubmatch(line); m != nil {
			n, _ := strconv.ParseInt(m[2], 10, 64)
			us += n
		}
	}
	return us
}
