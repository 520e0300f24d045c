package protocol

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// What tenants gain, measured through the script on a clock that the test sets.

// job is a request of a tenant, for one permit.
type job struct {
	tenant string
	at     time.Duration // when it comes
	lasts  time.Duration // for so long it holds its permit
}

// server decides who is granted. Both functions are told a time and a job, and return the jobs
// that are granted then.
type server struct {
	arrive, leave func(now time.Duration, j int) (granted []int)
}

// occasion is the arrival of a job, or the end of its lease.
type occasion struct {
	at     time.Duration
	leaves bool
	job    int
}

type occasions []occasion

func (o *occasions) Len() int           { return len(*o) }
func (o *occasions) Less(i, k int) bool { return (*o)[i].at < (*o)[k].at }
func (o *occasions) Swap(i, k int)      { (*o)[i], (*o)[k] = (*o)[k], (*o)[i] }
func (o *occasions) Push(x any)         { *o = append(*o, x.(occasion)) } //nolint:forcetypeassert // as heap does
func (o *occasions) Pop() any {
	all := *o
	last := all[len(all)-1]
	*o = all[:len(all)-1]
	return last
}

// simulate serves jobs with so many permits, and returns how long each had to wait. It fails if
// somebody waits while a permit is free, or if a tenant's jobs are not granted in their order.
func simulate(t *testing.T, jobs []job, permits int, s server) []time.Duration {
	t.Helper()
	var due occasions
	for i, j := range jobs {
		heap.Push(&due, occasion{at: j.at, job: i})
	}
	waits := make([]time.Duration, len(jobs))
	latest := map[string]int{}
	used, waiting := 0, 0
	for due.Len() > 0 {
		now := heap.Pop(&due).(occasion) //nolint:forcetypeassert // there is nothing else
		var granted []int
		if now.leaves {
			used--
			granted = s.leave(now.at, now.job)
		} else {
			waiting++
			granted = s.arrive(now.at, now.job)
		}
		for _, i := range granted {
			tenant := jobs[i].tenant
			if last, ok := latest[tenant]; ok && jobs[last].at >= jobs[i].at {
				t.Fatalf("T1: of %s, what came at %v was granted before what came at %v", tenant, jobs[last].at, jobs[i].at)
			}
			latest[tenant], waits[i] = i, now.at-jobs[i].at
			used, waiting = used+1, waiting-1
			heap.Push(&due, occasion{at: now.at + jobs[i].lasts, leaves: true, job: i})
		}
		if waiting > 0 && used < permits || used > permits {
			t.Fatalf("%d of %d permits are in use while %d wait", used, permits, waiting)
		}
	}
	return waits
}

// burst is a tenant that begins with many requests at once, beside small ones that come now and
// then, for a while.
func burst(many, small int, every, until time.Duration) (jobs []job) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	lasts := func() time.Duration { return time.Second/2 + time.Duration(random.Int64N(int64(time.Second))) }
	for i := range many {
		jobs = append(jobs, job{"big", 10*time.Second + time.Duration(i)*100*time.Microsecond, lasts()})
	}
	for n := range small {
		for at := random.Float64() * float64(every); at < float64(until); at += random.ExpFloat64() * float64(every) {
			jobs = append(jobs, job{fmt.Sprint("small", n), time.Duration(at), lasts()})
		}
	}
	return jobs
}

// script serves by the script, each request for its tenant.
func (r *rig) script(t *testing.T, jobs []job, permits int) server {
	t.Helper()
	r.reset(t)
	number := map[string]int{}
	call := func(now time.Duration, ops ...Op) (granted []int) {
		r.mr.SetTime(start.Add(now))
		reply, results := r.do(t, 0, ops...)
		for reply.More {
			reply, _ = r.do(t, 0)
		}
		if len(ops) == 1 && results[0].Code == Granted {
			granted = append(granted, number[ops[0].ID])
		}
		for _, line := range r.notes(t)["s0"] {
			var id string
			if n, _ := fmt.Sscanf(line, "g %s", &id); n == 1 {
				granted = append(granted, number[id])
			}
		}
		return granted
	}
	name := func(j int) string {
		id := fmt.Sprintf("s0.%d", j+1)
		number[id] = j
		return id
	}
	return server{
		arrive: func(now time.Duration, j int) []int {
			terms := terms(permits, func(t *Terms) {
				t.TTL, t.Heartbeat = 24*time.Hour, 24*time.Hour
				t.Tenant = jobs[j].tenant
			})
			return call(now, Op{Verb: Acquire, ID: name(j), Terms: terms})
		},
		leave: func(now time.Duration, j int) []int { return call(now, Op{Verb: Release, ID: name(j)}) },
	}
}

// startTimeFair serves by start-time fair queueing: a request's tag is the larger of the tag of
// what was granted last, and of its tenant's last plus what that took; the smallest is next.
func startTimeFair(jobs []job, permits int) server {
	clock, used := 0.0, 0
	tags, finish := map[int]float64{}, map[string]float64{}
	grant := func() (granted []int) {
		for ; used < permits && len(tags) > 0; used++ {
			next := -1
			for j, tag := range tags {
				if next < 0 || tag < tags[next] || tag == tags[next] && jobs[j].at < jobs[next].at {
					next = j
				}
			}
			clock = tags[next]
			granted = append(granted, next)
			delete(tags, next)
		}
		return granted
	}
	return server{
		arrive: func(_ time.Duration, j int) []int {
			tags[j] = max(clock, finish[jobs[j].tenant])
			finish[jobs[j].tenant] = tags[j] + jobs[j].lasts.Seconds()
			return grant()
		},
		leave: func(time.Duration, int) []int { used--; return grant() },
	}
}

// firstComeFirstServed serves in the order of arrival.
func firstComeFirstServed(permits int) server {
	var queue []int
	used := 0
	grant := func() (granted []int) {
		for ; used < permits && len(queue) > 0; used++ {
			granted, queue = append(granted, queue[0]), queue[1:]
		}
		return granted
	}
	return server{
		arrive: func(_ time.Duration, j int) []int { queue = append(queue, j); return grant() },
		leave:  func(time.Duration, int) []int { used--; return grant() },
	}
}

// of returns the wait that so large a part of the jobs of small tenants, which come while the
// burst is served, do not exceed.
func of(part float64, jobs []job, waits []time.Duration) time.Duration {
	var small []time.Duration
	for i, j := range jobs {
		if j.tenant != "big" && j.at > 10*time.Second {
			small = append(small, waits[i])
		}
	}
	slices.Sort(small)
	return small[int(part*float64(len(small)))]
}

// TestSmallTenantsDoNotWaitForABurst: one tenant asks for a thousand permits at once. The others
// wait for it in plain FIFO; with lines that take turns about as long as with fair queueing.
func TestSmallTenantsDoNotWaitForABurst(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: no queue of a thousand on an embedded store")
	}
	const permits = 4
	jobs := burst(1000, 20, 20*time.Second, 260*time.Second)
	r := embedded(t, true)
	fifo := of(0.99, jobs, simulate(t, jobs, permits, firstComeFirstServed(permits)))
	fair := of(0.99, jobs, simulate(t, jobs, permits, startTimeFair(jobs, permits)))
	waits := simulate(t, jobs, permits, r.script(t, jobs, permits))
	p99 := of(0.99, jobs, waits)
	t.Logf("p50 %v, p99 %v; in plain FIFO %v, with fair queueing %v", of(0.5, jobs, waits), p99, fifo, fair)
	if 50*p99 > fifo || p99 > 2*fair {
		t.Errorf("p99 of small tenants %v, want a fiftieth of %v and twice %v at most", p99, fifo, fair)
	}
}
