package reach_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/reach"
	"github.com/berth-go/berth/internal/testkit/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// answers is Redis for a server that is there. A busy machine may hold it up for longer than a
// silence may last.
func answers(t *testing.T, rdb redis.UniversalClient) (err error) {
	t.Helper()
	for range 10 {
		if err = reach.Redis(t.Context(), rdb); err == nil {
			break
		}
	}
	return err
}

// silent is Redis for a server that is away. While this process is held up it cannot tell.
func silent(t *testing.T, rdb redis.UniversalClient) (err error) {
	t.Helper()
	for range 20 {
		if err = reach.Redis(t.Context(), rdb); err == nil || errors.Is(err, reach.ErrAway) {
			break
		}
	}
	return err
}

// TestAnyAnswerIsASignOfLife: a refusal too, and whatever the pool does.
func TestAnyAnswerIsASignOfLife(t *testing.T) {
	full := redistest.Start(t, redistest.WithConfig("maxclients 1"))
	only := full.Client(t)
	if err := only.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	tls, addr, conf := redistest.StartTLS(t)
	busy := redistest.Start(t).Client(t, func(o *redis.Options) { o.PoolSize = 1 })
	conn := busy.Conn()
	defer conn.Close()
	if err := conn.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for name, rdb := range map[string]redis.UniversalClient{
		"idle":           redistest.Start(t).Client(t),
		"password":       redistest.Start(t, redistest.WithConfig("requirepass secret")).Client(t),
		"no client more": full.Client(t),
		"TLS":            tls.Client(t, func(o *redis.Options) { o.Network, o.Addr, o.TLSConfig = "tcp", addr, conf }),
		"no connection":  busy,
	} {
		if err := answers(t, rdb); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestServerThatIsAway(t *testing.T) {
	dead, stopped := redistest.Start(t), redistest.Start(t)
	dead.Kill()
	stopped.Stop()
	for name, rdb := range map[string]redis.UniversalClient{
		"dead": dead.Client(t), "stopped": stopped.Client(t),
	} {
		if err := silent(t, rdb); !errors.Is(err, reach.ErrAway) {
			t.Errorf("%s: %v, want ErrAway", name, err)
		}
	}
	stopped.Cont()
	if err := answers(t, stopped.Client(t)); err != nil {
		t.Errorf("after it went on: %v", err)
	}
}

// TestCluster: one node that answers is enough.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	seeded := cluster.Client(t, func(o *redis.ClusterOptions) { o.Addrs = o.Addrs[:1] })
	if err := seeded.Ping(t.Context()).Err(); err != nil { // it learns the others
		t.Fatal(err)
	}
	cluster.Nodes[0].Kill()
	if err := answers(t, seeded); err != nil {
		t.Errorf("the first node is away: %v", err)
	}
	for _, node := range cluster.Nodes[1:] {
		node.Kill()
	}
	for name, rdb := range map[string]redis.UniversalClient{"seeded": seeded, "new": cluster.Client(t)} {
		if err := silent(t, rdb); !errors.Is(err, reach.ErrAway) {
			t.Errorf("%s: all nodes are away: %v", name, err)
		}
	}
}

func TestSentinel(t *testing.T) {
	watched := redistest.StartWatched(t)
	rdb := watched.Client(t)
	if err := answers(t, rdb); err != nil {
		t.Error(err)
	}
	for _, s := range append(watched.Sentinels, watched.Servers...) {
		s.Kill()
	}
	if err := silent(t, rdb); !errors.Is(err, reach.ErrAway) {
		t.Errorf("all are away: %v", err)
	}
}

// dialing returns a client of a server that is reached by dial alone.
func dialing(t *testing.T, dial func(context.Context) (net.Conn, error)) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// TestBounds: nothing that a server or a dialer does takes longer.
func TestBounds(t *testing.T) {
	for name, test := range map[string]struct {
		dial func(context.Context) (net.Conn, error)
		took time.Duration
	}{
		"silent": {func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			go io.Copy(io.Discard, there)
			return here, nil
		}, 3 * time.Second},
		"closed": {func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			there.Close()
			return here, nil
		}, 0},
		"deaf": {func(context.Context) (net.Conn, error) {
			here, _ := net.Pipe()
			return here, nil
		}, 3 * time.Second},
		"times out": {func(context.Context) (net.Conn, error) {
			<-time.After(time.Second)
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ETIMEDOUT)}
		}, 3 * time.Second},
		"black hole": {func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, 3 * time.Second},
		"dialer without bound": {func(context.Context) (net.Conn, error) {
			<-time.After(time.Hour)
			return nil, errors.New("too late")
		}, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := reach.Redis(t.Context(), dialing(t, test.dial))
				if took := time.Since(began); !errors.Is(err, reach.ErrAway) || took != test.took {
					t.Errorf("%v after %v, want ErrAway after %v", err, took, test.took)
				}
				<-time.After(time.Hour) // for the dialer to end
			})
		})
	}
}

// TestLateAnswer: one within the bound counts.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := dialing(t, func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				_, _ = there.Read(make([]byte, 64))
				<-time.After(2500 * time.Millisecond)
				_, _ = there.Write([]byte("+PONG\r\n"))
			}()
			return here, nil
		})
		if err := reach.Redis(t.Context(), rdb); err != nil {
			t.Error(err)
		}
	})
}

// TestOwnTroubleIsNotTheServers: a process that is out of descriptors or ports
// learns nothing, and neither does a caller who leaves.
func TestOwnTroubleIsNotTheServers(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL} {
		rdb := dialing(t, func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", errno)}
		})
		if err := reach.Redis(t.Context(), rdb); err == nil || errors.Is(err, reach.ErrAway) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	// More than once: the end of the connection is noticed at the same instant.
	for range 50 {
		leaving(t)
	}
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	if err := reach.Redis(t.Context(), ring); err == nil || errors.Is(err, reach.ErrAway) {
		t.Errorf("a client of an unknown type: %v", err)
	}
}

func leaving(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer leave()
		rdb := dialing(t, func(context.Context) (net.Conn, error) {
			here, there := net.Pipe()
			go io.Copy(io.Discard, there)
			return here, nil
		})
		began := time.Now()
		err := reach.Redis(ctx, rdb)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, reach.ErrAway) || took != 100*time.Millisecond {
			t.Errorf("the caller has left: %v after %v", err, took)
		}
	})
}
