package storm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/redistest"
	"github.com/berth-go/berth/verify/history"
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

// linear returns the prefix of the names whose histories must be linearizable.
func (c Scenario) linear() string {
	if c.Keeps {
		return "linear"
	}
	return ""
}

func (c Scenario) start(s *storm) *redistest.Server {
	opts := []redistest.Option{redistest.WithConfig(append([]string{forgerRule}, c.config...)...)}
	if c.prepare != nil {
		opts = append(opts, c.prepare(s)...)
	}
	return redistest.Start(s.TB, opts...)
}

// fault is something that may happen, with a probability in proportion to its weight.
type fault struct {
	weight int
	strike func(s *storm)
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
			fault{4, scriptFlush}, fault{2, debugSleep},
		),
	}
	Clients = Scenario{Name: "clients", pace: 3 * time.Second, Keeps: true, faults: with(fault{2, scriptFlush})}
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

// redis returns a client of the server, which is closed when the test ends.
func (s *storm) redis() *redis.Client {
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: s.server.Socket(), PoolSize: 1, ReadTimeout: 10 * time.Second, MaxRetries: -1})
	s.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// do runs a command, which may fail, as the server may be in any state.
func (s *storm) do(args ...any) error {
	rdb := s.redis()
	defer rdb.Close()
	err := rdb.Do(context.Background(), args...).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// must runs a command and fails the test with it: the fault did not happen then.
func (s *storm) must(args ...any) {
	if err := s.do(args...); err != nil {
		s.Errorf("%v: %v", args, err)
	}
}

func stopServer(s *storm) {
	d := s.between(20*time.Millisecond, 2500*time.Millisecond)
	from := history.Now()
	s.server.Stop()
	pause(d)
	s.server.Cont()
	s.note(from, history.Event{Text: "server SIGSTOP"})
}

func restart(what history.Event) func(s *storm) {
	return func(s *storm) {
		from := history.Now()
		s.server.Kill()
		pause(s.between(0, 500*time.Millisecond))
		s.server.Restart(s.TB)
		s.note(from, what)
	}
}

// command returns a fault that consists of one command.
func command(what history.Event, args ...any) func(s *storm) {
	return func(s *storm) {
		from := history.Now()
		s.must(args...)
		s.note(from, what)
	}
}

func clientKill(kind string) func(s *storm) {
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
func noMemory(most time.Duration, what history.Event) func(s *storm) {
	return func(s *storm) {
		from := history.Now()
		s.must("CONFIG", "SET", "maxmemory", 1)
		pause(s.between(20*time.Millisecond, most))
		s.must("CONFIG", "SET", "maxmemory", 0)
		s.note(from, what)
	}
}

func clientPause(s *storm) {
	d := s.between(50*time.Millisecond, 1500*time.Millisecond)
	mode := "WRITE"
	if s.rng.IntN(2) == 0 {
		mode = "ALL"
	}
	from := history.Now()
	s.must("CLIENT", "PAUSE", d.Milliseconds(), mode)
	pause(d)
	s.note(from, history.Event{Text: "CLIENT PAUSE " + mode})
}

func debugSleep(s *storm) {
	d := s.between(50*time.Millisecond, time.Second)
	from := history.Now()
	s.must("DEBUG", "SLEEP", fmt.Sprintf("%.3f", d.Seconds()))
	s.note(from, history.Event{Text: "DEBUG SLEEP"})
}

// halved lists the semaphores that may lose one of their keys. They cannot be used for
// up to a minute then, so those whose liveness is judged are not among them.
var halved = []string{"mix", "later", "latest", "crowd", "rough"}

// halving deletes one of a semaphore's two keys, if both exist, and returns the number
// of milliseconds for which, according to the other key, leases may live then.
const halving = `
	local state = redis.call('HGET', KEYS[1], 'state')
	if not state or redis.call('EXISTS', KEYS[2]) == 0 then return -1 end
	local till = string.match(state, '(%d+) [01]$')
	if ARGV[1] == '1' then till = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2] end
	redis.call('DEL', KEYS[ARGV[1] + 0])
	local now = redis.call('TIME')
	return math.max(0, till - now[1] * 1000 - math.floor(now[2] / 1000))`

// halve deletes one of the two keys of a semaphore. Nothing is granted then until all
// leases have expired, and waiters have lost their places.
func halve(s *storm) {
	for _, i := range s.rng.Perm(len(halved)) {
		which := 1 + s.rng.IntN(2)
		key := s.prefix + ":{" + halved[i] + "}"
		from := history.Now()
		left, err := s.redis().Eval(context.Background(), halving, []string{key, key + ":order"}, which).Int64()
		if err != nil {
			s.Errorf("delete a key of %s: %v", key, err)
			return
		}
		if left >= 0 {
			what := []string{"hash", "sorted set"}[which-1]
			until := history.Now().Add(time.Duration(left) * time.Millisecond)
			s.out.Write(history.Event{
				At: from, Until: until, Kind: history.Fault, Name: halved[i], Queues: true, Text: "deleted: the " + what + " of " + halved[i],
			})
			return
		}
	}
}

// evictSome writes other keys until the server has to evict some, berth's or others.
func evictSome(s *storm) {
	from := history.Now()
	s.must("CONFIG", "SET", "maxmemory", "4mb")
	for i := range 400 {
		_ = s.do("SET", fmt.Sprintf("ballast%d", i), strings.Repeat("x", 10000), "PX", 2000)
	}
	s.must("CONFIG", "SET", "maxmemory", 0)
	s.note(from, history.Event{Text: "maxmemory, allkeys-lru: some", Breaks: true})
}

// fillDisk fills the disk for a while, so that the AOF cannot be written.
func fillDisk(s *storm) {
	file := s.disk + "/ballast"
	from := history.Now()
	_ = os.WriteFile(file, make([]byte, 16<<20), 0o600) // it fails when the disk is full
	pause(s.between(200*time.Millisecond, 2*time.Second))
	if err := os.Remove(file); err != nil {
		s.Error(err)
	}
	s.note(from, history.Event{Text: "disk full"})
}
