package promise_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/berthtest"
	"github.com/berth-go/berth/internal/bridge"
	"github.com/berth-go/berth/internal/testkit/redistest"
	"github.com/berth-go/berth/internal/testkit/testenv"
)

// reach is what berthhttp and the agent ask whether Redis is there.
var reach = berth.Internal(bridge.NewKey()).Reach

// TestReachOfACrowdedServer: one that keeps a new connection waiting, because of all the
// others, and answers calls, is there.
func TestReachOfACrowdedServer(t *testing.T) {
	testenv.Embedded(t, func(e *testenv.Env) {
		p := e.Peer()
		sem := p.Sem(1)
		p.Net.Inject(redistest.Rule{Fault: redistest.SwallowRequest, Match: redistest.Named("ping"), Times: -1})
		began := time.Now()
		time.AfterFunc(time.Second, func() { e.Must(e.Hold(sem).Release()) })
		e.Must(reach(e.Ctx, p.Client))
		e.Within(began, 3*time.Second, 3*time.Second, "found out")
		if err := reach(e.Ctx, p.Client); !errors.Is(err, berth.ErrUnreachable) {
			e.Errorf("when no call is answered: %v", err)
		}
	})
}

// TestReach: whether Redis is there, not whether it is quick or willing.
func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := berthtest.New(t)
		client := store.Client()
		store.Slow(time.Second)
		if err := reach(t.Context(), client); err != nil {
			t.Errorf("slow: %v", err)
		}
		store.Slow(time.Hour)
		began := time.Now()
		if err := reach(t.Context(), client); !errors.Is(err, berth.ErrUnreachable) || time.Since(began) != 3*time.Second {
			t.Errorf("hangs: %v after %v", err, time.Since(began))
		}
		store.Slow(0)
		store.Down()
		if err := reach(t.Context(), client); !errors.Is(err, berth.ErrUnreachable) {
			t.Errorf("away: %v", err)
		}
		store.Up()
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if err := reach(ctx, client); !errors.Is(err, context.Canceled) || errors.Is(err, berth.ErrUnreachable) {
			t.Errorf("the caller has left: %v", err)
		}
	})
}

// The nodes of a Redis Cluster. Nobody listens there.
const (
	oneNode   = "127.0.0.1:1"
	otherNode = "127.0.0.2:1"
)

// clustered returns a client of a Redis Cluster whose nodes are reached by dial alone. Dials
// that go on in the background end with the test, in a bubble.
func clustered(t *testing.T, dial redistest.DialFunc) *berth.Client {
	t.Helper()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{oneNode, otherNode}, Dialer: dial, MaxRedirects: -1})
	t.Cleanup(func() {
		_ = rdb.Close()
		<-time.After(time.Minute)
	})
	client, err := berth.New(rdb)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// TestReachOfAClusterByItsOwnDialer: through a tunnel, say, where its addresses mean something.
func TestReachOfAClusterByItsOwnDialer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := clustered(t, func(_ context.Context, _, addr string) (net.Conn, error) {
			if addr == oneNode {
				return nil, syscall.ECONNREFUSED
			}
			ours, theirs := net.Pipe()
			go func() { // it knows no command, and so no nodes
				defer theirs.Close()
				for in := bufio.NewReader(theirs); ; {
					if line, err := in.ReadString('\n'); err != nil {
						return
					} else if line[0] == '*' {
						_, _ = io.WriteString(theirs, "-ERR no\r\n")
					}
				}
			}()
			return ours, nil
		})
		if err := reach(t.Context(), client); err != nil {
			t.Error(err)
		}
	})
}

// TestReachOfAClusterThatIsNotKnown: where one node is away and this process cannot find out about
// the other, which may be there, that is no outage, whichever it learns of first.
func TestReachOfAClusterThatIsNotKnown(t *testing.T) {
	for _, first := range []string{oneNode, otherNode} {
		synctest.Test(t, func(t *testing.T) {
			client := clustered(t, func(_ context.Context, _, addr string) (net.Conn, error) {
				if addr != first {
					<-time.After(time.Second)
				}
				if addr == oneNode {
					return nil, syscall.ECONNREFUSED
				}
				return nil, syscall.EMFILE
			})
			if err := reach(t.Context(), client); !errors.Is(err, syscall.EMFILE) || errors.Is(err, berth.ErrUnreachable) {
				t.Errorf("%s first: %v", first, err)
			}
		})
	}
}
