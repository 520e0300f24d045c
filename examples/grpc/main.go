// Command grpc has replicas of a gRPC server work for callers without a limit, with one that is only
// observed, and with one that is enforced. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/examples/internal/program"
	"github.com/berth-go/berth/examples/internal/store"
)

// job is what is to be done.
type job struct {
	Redis                           string
	Replicas, Callers, Calls, Limit int
	Takes                           time.Duration
}

func main() {
	var j job
	flag.StringVar(&j.Redis, "redis", os.Getenv("REDIS_URL"), "`URL` of the Redis; default: an embedded store")
	flag.IntVar(&j.Replicas, "replicas", 3, "replicas of the server")
	flag.IntVar(&j.Callers, "callers", 24, "callers, spread over the replicas")
	flag.IntVar(&j.Calls, "calls", 5, "calls of each, one after the other")
	flag.IntVar(&j.Limit, "limit", 6, "calls that the replicas may work on at once, together")
	flag.DurationVar(&j.Takes, "takes", 50*time.Millisecond, "how long a call takes in a database that is not overloaded")
	flag.Parse()
	program.Run(func(ctx context.Context) error { return run(ctx, os.Stdout, j) })
}

// ways are what becomes of the limit.
var ways = []string{"no limit", "observed", "enforced"}

// run makes the calls in each way, and prints a line for each.
func run(ctx context.Context, out io.Writer, j job) error {
	if min(j.Replicas, j.Callers, j.Calls, j.Limit) < 1 {
		return errors.New("give every number as 1 or more")
	}
	redis, err := store.Open(j.Redis)
	if err != nil {
		return err
	}
	defer redis.Close()
	fmt.Fprintf(out, "%v\n%d replicas, %d callers; limit %d\n\n", redis, j.Replicas, j.Callers, j.Limit)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\ttook\tanswered\trefused\tat once\tobserved: granted\twould have waited")
	for _, way := range ways {
		seen, err := j.in(ctx, redis, way)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%v\t%d\t%d\t%d\t%d\t%d\n", way, seen.took.Round(10*time.Millisecond), seen.answered.Load(),
			seen.refused.Load(), seen.peak, seen.granted.Load(), seen.waits.Load())
	}
	return table.Flush()
}

// seen is what was seen of the calls.
type seen struct {
	took                              time.Duration
	peak                              int // calls in the database at once
	answered, refused, granted, waits atomic.Int64
}

// hook counts what was observed.
func (s *seen) hook() berth.ClientOption {
	return berth.Hook(berth.Hooks{AcquireDone: func(_ context.Context, a berth.AcquireInfo, _ *berth.Lease, _ error) {
		switch a.Observed {
		case berth.ObservedGrant:
			s.granted.Add(1)
		case berth.ObservedWait:
			s.waits.Add(1)
		}
	}})
}

// in makes all calls in one way.
func (j job) in(ctx context.Context, redis *store.Store, way string) (*seen, error) {
	s, db := new(seen), &database{comfortable: j.Limit, takes: j.Takes}
	conns := make([]*grpc.ClientConn, j.Replicas)
	for i := range conns {
		client, err := berth.New(redis.Client, s.hook()) // each replica is a process of its own, say
		if err != nil {
			return nil, err
		}
		defer client.Close()
		target, stop, err := serve(client, db, j.Limit, way)
		if err != nil {
			return nil, err
		}
		defer stop()
		if conns[i], err = grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
			return nil, err
		}
		defer conns[i].Close()
	}
	start := time.Now()
	err := j.call(ctx, conns, s)
	s.took, s.peak = time.Since(start), db.most()
	return s, err
}

// call has all callers make their calls.
func (j job) call(ctx context.Context, conns []*grpc.ClientConn, s *seen) error {
	errs := make([]error, j.Callers)
	var all sync.WaitGroup
	for i := range j.Callers {
		all.Go(func() {
			for range j.Calls {
				switch err := makeReport(ctx, conns[i%len(conns)]); status.Code(err) {
				case codes.OK:
					s.answered.Add(1)
				case codes.ResourceExhausted:
					s.refused.Add(1)
				default:
					errs[i] = err
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
