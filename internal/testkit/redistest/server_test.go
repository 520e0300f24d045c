package redistest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/child"
	"github.com/berth-go/berth/internal/testkit/redisserver"
)

func TestMain(m *testing.M) { Main(m) }

func TestStartServesAndCleansUp(t *testing.T) {
	var s *Server
	t.Run("inner", func(t *testing.T) {
		s = Start(t, WithTCP(), WithConfig("maxmemory 3mb"))
		for _, url := range []string{s.URL(), "redis://" + s.Addr()} {
			o, err := redis.ParseURL(url)
			if err != nil {
				t.Fatal(err)
			}
			c := redis.NewClient(o)
			defer c.Close()
			if err := c.Ping(t.Context()).Err(); err != nil {
				t.Errorf("%s: %v", url, err)
			}
		}
		got := s.Do(t, "CONFIG", "GET", "maxmemory")
		if m, ok := got.(map[any]any); !ok || m["maxmemory"] != "3145728" {
			t.Errorf("maxmemory: %v", got)
		}
		if got := s.Do(t, "GET", "absent"); got != nil {
			t.Errorf("a missing key is %v, want nil", got)
		}
	})
	if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) {
		t.Errorf("the directory is left over: %v", err)
	}
	select {
	case <-s.Ended():
	default:
		t.Error("the server still runs")
	}
}

func TestStoppedServerExecutesLater(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := s.Client(t, func(o *redis.Options) {
		o.ReadTimeout, o.MaxRetries = 30*time.Millisecond, -1
	})
	err := c.Ping(t.Context()).Err()
	for tries := 1; err != nil && tries < 1000; tries++ { // a busy machine may take longer
		err = c.Ping(t.Context()).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if err := c.Incr(t.Context(), "n").Err(); err == nil {
		t.Fatal("a stopped server answered")
	}
	s.Cont()
	if got := s.Do(t, "GET", "n"); got != "1" {
		t.Errorf("n = %v, want 1: the request waits in the socket", got)
	}
	s.Stop() // cleanup must cope with a stopped server
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	s := Start(t, WithTCP(), WithConfig("appendonly yes", "appendfsync always"))
	addr := s.Addr()
	s.Do(t, "SET", "kept", "yes")
	s.Kill()
	once := func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 }
	if err := s.Client(t, once).Ping(t.Context()).Err(); err == nil {
		t.Error("a killed server answered")
	}
	s.Restart(t)
	s.Restart(t) // also while it runs
	if got := s.Do(t, "GET", "kept"); got != "yes" || s.Addr() != addr {
		t.Errorf("after the restart: %v at %s, want yes at %s", got, s.Addr(), addr)
	}
}

func TestStartTellsWhatIsWrong(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("BERTH_REDIS_SERVER", "")
	_, err := start(nil)
	if err == nil || !strings.Contains(err.Error(), "apt-get install redis-server") {
		t.Errorf("no server: %v", err)
	}
}

func TestStartShowsTheLog(t *testing.T) {
	t.Parallel()
	_, err := start([]Option{WithConfig("no-such-directive 1")})
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("a bad directive: %v", err)
	}
}

func TestShared(t *testing.T) {
	t.Parallel()
	a, b := Shared(t), Shared(t)
	if a != b {
		t.Error("two shared servers")
	}
	p, q := a.Prefix(t), a.Prefix(t)
	if p == q || strings.HasPrefix(q, p) {
		t.Errorf("prefixes %q and %q can be confused", p, q)
	}
	c := a.Client(t)
	if err := c.Set(context.Background(), p+":k", 1, 0).Err(); err != nil {
		t.Error(err)
	}
}

// TestServerDiesWithTheTests kills a second test binary that has a server.
func TestServerDiesWithTheTests(t *testing.T) {
	if os.Getenv("REDISTEST_CHILD") != "" {
		s := Start(t)
		_ = json.NewEncoder(os.Stdout).Encode(s.Socket())
		select {} // until the parent kills this process
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a parent-death signal")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerDiesWithTheTests$")
	cmd.Env = append(os.Environ(), "REDISTEST_CHILD=1")
	p, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var socket string
	err = p.Hear(t.Context(), &socket)
	p.Kill()
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(filepath.Dir(socket))
	gone := func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", socket)
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED) // a busy server's error is another
	}
	for deadline := time.Now().Add(redisserver.Timeout); !gone(); {
		if time.Now().After(deadline) {
			t.Fatal("the server outlived the test binary")
		}
	}
}
