package storm

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/dev/verify/history"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

// Scenario is a configuration of the server and the faults that may strike it.
type Scenario struct {
	Name    string
	Keeps   bool          // it keeps the assumptions of guarantees.md: every promise is demanded
	pace    time.Duration // the longest time between two faults
	config  []string
	faults  []fault
	prepare func(s *storm) []redistest.Option
}

func (c Scenario) start(s *storm) *redistest.Server {
	opts := []redistest.Option{redistest.WithConfig(append([]string{forgerRule}, c.config...)...)}
	if c.prepare != nil {
		opts = append(opts, c.prepare(s)...)
	}
	return redistest.Start(s.TB, opts...)
}

// fault is something that may happen, with a probability in proportion to its weight.
// It returns when it is over and says what it was; an empty event if it was nothing, or
// is still under way and will record itself.
type fault struct {
	weight int
	strike func(s *storm) history.Event
}

const quick = 600 * time.Millisecond

var clients = []fault{{5, killClient}, {5, stopClient}}

func with(own ...fault) []fault { return append(own, clients...) }

func aof(policy string) []string {
	return []string{"appendonly yes", "appendfsync " + policy, "auto-aof-rewrite-percentage 0"}
}

// The scenarios. The first five demand every promise. The others break an assumption
// and demand what guarantees.md says about that case.
var (
	Keep = Scenario{
		Name: "keep", pace: quick, Keeps: true, config: append(aof("always"), "enable-debug-command local"),
		faults: with(
			fault{2, stopServer}, fault{2, restart(history.Event{Text: "server SIGKILL, AOF always"})},
			fault{2, clientKill("normal")}, fault{2, clientKill("pubsub")}, fault{2, clientPause},
			fault{4, scriptFlush}, fault{2, debugSleep}, fault{2, compute},
		),
	}
	Clients = Scenario{Name: "clients", pace: 3 * time.Second, Keeps: true, faults: with(fault{2, scriptFlush}, fault{2, compute})}
	Memory  = Scenario{Name: "oom", pace: quick, Keeps: true, config: []string{"maxmemory-policy noeviction"}, faults: with(fault{6, outOfMemory})}
	Disk    = Scenario{Name: "disk", pace: quick, Keeps: true, config: aof("everysec"), faults: with(fault{5, fillDisk}), prepare: mountDisk}
	Half    = Scenario{Name: "half", pace: quick, Keeps: true, faults: with(fault{15, halve}), prepare: soonClock}

	Everysec = Scenario{
		Name: "everysec", pace: quick, config: aof("everysec"),
		faults: with(fault{4, restart(history.Event{Text: "server SIGKILL, AOF everysec", Breaks: true})}),
	}
	Forget = Scenario{
		Name: "forget", pace: quick,
		faults: with(fault{4, restart(history.Event{Text: "server SIGKILL, no AOF", Breaks: true, Surely: true})}),
	}
	Flush = Scenario{Name: "flush", pace: quick, faults: with(fault{5, flushAll}, fault{1, scriptFlush})}
	Evict = Scenario{Name: "evict", pace: quick, config: []string{"maxmemory-policy allkeys-lru"}, faults: with(fault{4, evictAll}, fault{4, evictSome})}
	Step  = Scenario{Name: "clock", pace: quick, faults: with(fault{5, stepClock}), prepare: shimClock}
)

// client returns a client for the storm's own commands, which are sent once.
func (s *storm) client() *redis.Client {
	return s.server.Client(s, func(o *redis.Options) { o.PoolSize, o.ReadTimeout, o.MaxRetries = 1, patience, -1 })
}

// do runs a command, which may fail, as the server may be in any state.
func (s *storm) do(args ...any) *redis.Cmd {
	rdb := s.client()
	defer rdb.Close()
	return rdb.Do(context.Background(), args...)
}

// must runs a command and fails the test with it: the fault did not happen then.
func (s *storm) must(args ...any) {
	if err := s.do(args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
		s.Errorf("%v: %v", args, err)
	}
}

func stopServer(s *storm) history.Event {
	d := s.between(20*time.Millisecond, 2500*time.Millisecond)
	s.server.Stop()
	pause(d)
	s.server.Cont()
	return history.Event{Text: "server SIGSTOP"}
}

func restart(what history.Event) func(s *storm) history.Event {
	return func(s *storm) history.Event {
		s.server.Kill()
		pause(s.between(0, 500*time.Millisecond))
		s.server.Restart(s.TB)
		return what
	}
}

// command returns a fault that consists of one command.
func command(what history.Event, args ...any) func(s *storm) history.Event {
	return func(s *storm) history.Event {
		s.must(args...)
		return what
	}
}

func clientKill(kind string) func(s *storm) history.Event {
	return command(history.Event{Text: "CLIENT KILL TYPE " + kind}, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
}

var (
	scriptFlush = command(history.Event{Text: "SCRIPT FLUSH"}, "SCRIPT", "FLUSH")
	flushAll    = command(history.Event{Text: "FLUSHALL", Breaks: true, Surely: true}, "FLUSHALL")

	// outOfMemory makes the server refuse every command that may need memory.
	outOfMemory = noMemory(1500*time.Millisecond, history.Event{Text: "maxmemory, noeviction"})
	// evictAll makes the server evict every key.
	evictAll = noMemory(300*time.Millisecond, history.Event{Text: "maxmemory, allkeys-lru: all", Breaks: true})
)

// noMemory returns a fault that leaves the server no memory, for at most the time most.
func noMemory(most time.Duration, what history.Event) func(s *storm) history.Event {
	return func(s *storm) history.Event {
		s.must("CONFIG", "SET", "maxmemory", 1)
		pause(s.between(20*time.Millisecond, most))
		s.must("CONFIG", "SET", "maxmemory", 0)
		return what
	}
}

func clientPause(s *storm) history.Event {
	d := s.between(50*time.Millisecond, 1500*time.Millisecond)
	mode := "WRITE"
	if s.rng.IntN(2) == 0 {
		mode = "ALL"
	}
	s.must("CLIENT", "PAUSE", d.Milliseconds(), mode)
	pause(d)
	return history.Event{Text: "CLIENT PAUSE " + mode}
}

func debugSleep(s *storm) history.Event {
	s.must("DEBUG", "SLEEP", fmt.Sprintf("%.3f", s.between(50*time.Millisecond, time.Second).Seconds()))
	return history.Event{Text: "DEBUG SLEEP"}
}

// compute takes the machine's CPUs for a while. That is no excuse for anything but what the
// clients find out by themselves, that they stood still.
func compute(s *storm) history.Event {
	end := time.Now().Add(s.between(50*time.Millisecond, 800*time.Millisecond))
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			for time.Now().Before(end) {
			}
		})
	}
	all.Wait()
	return history.Event{Target: nobody, Text: "busy CPUs"}
}

// nobody is the target of what happens and excuses nobody.
const nobody = -1

// halved lists the semaphores that may lose one of their keys. They cannot be used for
// up to a minute then, so those whose liveness is judged are not among them.
var halved = []string{"mix", "rate", "later", "latest", "crowd", "rough"}

// halving deletes one of a semaphore's two keys, if both exist, and returns the number
// of milliseconds for which, according to the other key, leases may live then.
const halving = `
	local state = redis.call('HGET', KEYS[1], 'state')
	if not state or redis.call('EXISTS', KEYS[2]) == 0 then return -1 end
	local till = string.match(state, '^' .. string.rep('%S+ ', 12) .. '(%d+)')
	if ARGV[1] == '1' then till = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2] end
	redis.call('DEL', KEYS[ARGV[1] + 0])
	local now = redis.call('TIME')
	return math.max(0, till - now[1] * 1000 - math.floor(now[2] / 1000))`

// halve deletes one of the two keys of a semaphore. Nothing is granted then until all
// leases have expired, and waiters have lost their places.
func halve(s *storm) history.Event {
	for _, i := range s.rng.Perm(len(halved)) {
		which := s.rng.IntN(2)
		key := s.prefix + ":{" + halved[i] + "}"
		left, err := s.do("EVAL", halving, 2, key, key+":order", which+1).Int64()
		if err != nil {
			s.Errorf("delete a key of %s: %v", key, err)
			return history.Event{}
		}
		if left >= 0 {
			what := []string{"hash", "sorted set"}[which]
			until := history.Now().Add(time.Duration(left) * time.Millisecond)
			return history.Event{Until: until, Name: halved[i], Queues: true, Text: "deleted: the " + what + " of " + halved[i]}
		}
	}
	return history.Event{}
}

// evictSome writes other keys until the server has to evict some, berth's or others.
func evictSome(s *storm) history.Event {
	s.must("CONFIG", "SET", "maxmemory", "4mb")
	rdb := s.client()
	defer rdb.Close()
	for i := range 400 {
		rdb.Do(context.Background(), "SET", fmt.Sprintf("ballast%d", i), strings.Repeat("x", 10000), "PX", 2000)
	}
	s.must("CONFIG", "SET", "maxmemory", 0)
	return history.Event{Text: "maxmemory, allkeys-lru: some", Breaks: true}
}
