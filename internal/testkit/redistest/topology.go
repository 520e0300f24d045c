package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/testkit/redisserver"
)

// formTimeout bounds the wait until several servers agree.
const formTimeout = 2 * time.Minute

// eager makes a master send its data to a new replica without delay. A diskless master
// first waits for other replicas that may need the data, too, and then for an
// acknowledgement that a replica sends once a second.
func eager(c *redisserver.Config) { c.Lines = append(c.Lines, "repl-diskless-sync no") }

// StartReplica starts a replica of master, which must have been started with WithTCP, and
// returns when the two are in sync.
func StartReplica(t testing.TB, master *Server, opts ...Option) *Server {
	t.Helper()
	master.Do(t, "CONFIG", "SET", "repl-diskless-sync", "no")
	port := strings.TrimPrefix(master.Addr(), "127.0.0.1:")
	s := Start(t, append([]Option{WithTCP(), eager, WithConfig("replicaof 127.0.0.1 " + port)}, opts...)...)
	await(t, "the replica to follow its master", s.follows)
	await(t, "the master to count on its replica", func() error { return master.feeds(s) })
	return s
}

// feeds returns an error while s does not consider replica to be in sync, which it does
// later than the replica itself.
func (s *Server) feeds(replica *Server) error {
	for i := range 10 {
		line, err := s.Info(fmt.Sprintf("slave%d", i))
		if err != nil || strings.Contains(line, fmt.Sprintf(",port=%d,state=online,", replica.Port())) {
			return err
		}
	}
	return errors.New("it is not online")
}

// Info returns one field of INFO, or "" if it does not exist.
func (s *Server) Info(field string) (string, error) {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket(), PoolSize: 1, MaxRetries: -1})
	defer c.Close()
	text, err := c.Info(context.Background()).Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value, nil
		}
	}
	return "", nil
}

func (s *Server) follows() error {
	link, err := s.Info("master_link_status")
	if err == nil && link != "up" {
		err = fmt.Errorf("its link is %q", link)
	}
	return err
}

// Promote makes a replica a master. As in a failover, it loses what it has not yet received
// from its old master.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Do(t, "REPLICAOF", "NO", "ONE")
}

// Watched is a master with two replicas, and three sentinels with a quorum of two.
type Watched struct {
	Name      string // the master's name for the sentinels
	Servers   []*Server
	Sentinels []*Server
}

// StartWatched starts the six processes and returns when every sentinel knows all of them.
// A master that is silent for a second counts as dead.
func StartWatched(t testing.TB) *Watched {
	t.Helper()
	notShort(t)
	w := &Watched{Name: "berth"}
	master := Start(t, WithTCP())
	w.Servers = []*Server{master, StartReplica(t, master), StartReplica(t, master)}
	port := strings.TrimPrefix(master.Addr(), "127.0.0.1:")
	for range 3 {
		w.Sentinels = append(w.Sentinels, Start(t, WithTCP(), asSentinel, WithConfig(
			"sentinel monitor "+w.Name+" 127.0.0.1 "+port+" 2",
			"sentinel down-after-milliseconds "+w.Name+" 1000",
			"sentinel failover-timeout "+w.Name+" 5000",
		)))
	}
	for _, s := range w.Sentinels {
		await(t, "the sentinels to know each other", func() error {
			line, err := s.Info("master0")
			if err == nil && !strings.HasSuffix(line, "status=ok,address="+master.Addr()+",slaves=2,sentinels=3") {
				err = errors.New(line)
			}
			return err
		})
	}
	return w
}

// notShort skips the test with -short: several servers take seconds until they know of each
// other, and of each other's end.
func notShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no test of a Cluster or of Sentinels")
	}
}

// asSentinel starts the redis-server as a sentinel.
func asSentinel(c *redisserver.Config) { c.Args = append(c.Args, "--sentinel") }

// Client returns a client that asks the sentinels for the master. The functions may change
// its options.
func (w *Watched) Client(t testing.TB, opts ...func(*redis.FailoverOptions)) *redis.Client {
	t.Helper()
	o := &redis.FailoverOptions{MasterName: w.Name}
	for _, s := range w.Sentinels {
		o.SentinelAddrs = append(o.SentinelAddrs, s.Addr())
	}
	for _, opt := range opts {
		opt(o)
	}
	c := redis.NewFailoverClient(o)
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it already
	return c
}

// Master returns the server that is the master according to the sentinels.
func (w *Watched) Master(t testing.TB) *Server {
	t.Helper()
	c := redis.NewSentinelClient(&redis.Options{Addr: w.Sentinels[0].Addr()})
	defer c.Close()
	addr, err := c.GetMasterAddrByName(context.Background(), w.Name).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range w.Servers {
		if s.Addr() == strings.Join(addr, ":") {
			return s
		}
	}
	t.Fatalf("the sentinels name a stranger: %v", addr)
	return nil
}

// AwaitWhole returns when every sentinel has completed the last failover and the present
// master has its two replicas again. Without it the next failover may come too early: a
// sentinel that led a failover, and does not learn of its end because the new master dies,
// too, names that master for ever.
func (w *Watched) AwaitWhole(t testing.TB) {
	t.Helper()
	await(t, "the sentinels to agree on a master that is up", func() error {
		master := w.Master(t).Addr()
		for _, s := range w.Sentinels {
			c := redis.NewSentinelClient(&redis.Options{Addr: s.Addr()})
			seen, err := c.Master(context.Background(), w.Name).Result()
			_ = c.Close()
			if err != nil {
				return err
			}
			if addr := seen["ip"] + ":" + seen["port"]; addr != master || seen["flags"] != "master" {
				return fmt.Errorf("one names %s (%s), another %s", addr, seen["flags"], master)
			}
		}
		return nil
	})
	await(t, "two replicas to follow the master", func() error {
		n, err := w.Master(t).Info("connected_slaves")
		if err == nil && n != "2" {
			err = fmt.Errorf("it has %q", n)
		}
		return err
	})
}

// await calls ok, with pauses, until it returns nil.
func await(t testing.TB, what string, ok func() error) {
	t.Helper()
	deadline := time.Now().Add(formTimeout)
	for {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s: %v", formTimeout, what, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}
