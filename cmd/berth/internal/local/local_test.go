package local

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-go/berth/internal/testkit/redistest"
)

// The test binary is the store's process too, when it is started with this.
const storeEnv = "BERTH_TEST_STORE"

func TestMain(m *testing.M) {
	if idle := os.Getenv(storeEnv); idle != "" {
		d, err := time.ParseDuration(idle)
		if err == nil {
			err = Serve(context.Background(), os.Args[1], d)
		}
		if err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	redistest.Main(m)
}

// testStore returns a store in a fresh directory that the processes it starts
// have left when the test ends.
func testStore(t *testing.T, idle time.Duration) (*Store, func() *exec.Cmd) {
	t.Helper()
	base, err := os.MkdirTemp("", "berth") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var last *exec.Cmd
	s := &Store{Dir: filepath.Join(base, "d"), Command: func() *exec.Cmd {
		mu.Lock()
		defer mu.Unlock()
		last = exec.Command(exe, filepath.Join(base, "d"))
		// The race detector would keep an ended store around for a second.
		last.Env = append(os.Environ(), storeEnv+"="+idle.String(), "GORACE=atexit_sleep_ms=0")
		return last
	}}
	t.Cleanup(func() {
		if last != nil && last.Process != nil {
			last.Process.Kill()
			waitGone(t, s.Dir)
		}
		os.RemoveAll(base)
	})
	return s, func() *exec.Cmd { mu.Lock(); defer mu.Unlock(); return last }
}

// waitGone returns when no store process is left.
func waitGone(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l, err := lock(ctx, dir, storeLockName)
	if err != nil {
		t.Fatalf("the store is still there: %v", err)
	}
	l.Close()
}

func TestManyStartersOneStore(t *testing.T) {
	s, _ := testStore(t, time.Minute)
	const clients = 8
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			conn, err := s.Dial(t.Context(), "", "")
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n"); err != nil {
				t.Error(err)
			}
			bufio.NewReader(conn).ReadString('\n')
		})
	}
	wg.Wait()
	conn, err := s.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "*2\r\n$3\r\nGET\r\n$1\r\nn\r\n")
	r := bufio.NewReader(conn)
	r.ReadString('\n')
	if got, _ := r.ReadString('\n'); strings.TrimSpace(got) != fmt.Sprint(clients) {
		t.Errorf("the store counted %q clients, want %d: there was more than one", got, clients)
	}
}

func TestGoneWhenIdle(t *testing.T) {
	s, _ := testStore(t, time.Millisecond)
	conn, err := s.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	waitGone(t, s.Dir)
	if _, err := os.Lstat(s.socket()); err == nil {
		t.Error("the socket is still there")
	}
}

// A store that goes as soon as it can meets clients all the time: none of them
// may be turned away.
func TestConnectWhileItGoes(t *testing.T) {
	s, _ := testStore(t, time.Nanosecond)
	for range 20 {
		conn, err := s.Dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := ask(t.Context(), conn, "PING"); err != nil || answer != "+PONG\r\n" {
			t.Fatalf("a connection that was handed out does not work: %v", err)
		}
		conn.Close()
	}
}

func TestAnotherAfterAKill(t *testing.T) {
	s, process := testStore(t, time.Minute)
	conn, err := s.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	first := process()
	first.Process.Kill()
	waitGone(t, s.Dir)
	again, err := s.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if process() == first {
		t.Error("no second store was started")
	}
}

func TestDialReportsWhyItCannotStart(t *testing.T) {
	s, _ := testStore(t, time.Minute)
	s.Command = func() *exec.Cmd { return exec.Command("/nonexistent/berth") }
	if _, err := s.Dial(t.Context(), "", ""); err == nil {
		t.Error("no error")
	}
	s.Command = func() *exec.Cmd { return exec.Command("true") }
	if _, err := s.Dial(t.Context(), "", ""); err == nil || !strings.Contains(err.Error(), "ended while it started") {
		t.Errorf("got %v", err)
	}
}

// One user has one store on a machine, in a login shell as in a cron job: the
// environment has no say in where it is.
func TestDefaultDirIsFoundFromTheUserAlone(t *testing.T) {
	want := DefaultDir()
	for _, name := range []string{"XDG_RUNTIME_DIR", "TMPDIR", "HOME", "USER"} {
		t.Setenv(name, t.TempDir())
		if got := DefaultDir(); got != want {
			t.Errorf("with another %s it is %s, not %s", name, got, want)
		}
	}
	if root, user := dirOf(0), dirOf(1000); root == user || user != "/tmp/berth-1000" {
		t.Errorf("root has %s, user 1000 has %s", root, user)
	}
}

func TestStoreDirOfTheEnvironment(t *testing.T) {
	t.Setenv(DirEnv, "/var/lib/app/berth")
	if dir, err := Dir(); err != nil || dir != "/var/lib/app/berth" {
		t.Errorf("got %q, %v", dir, err)
	}
	t.Setenv(DirEnv, "berth")
	if dir, err := Dir(); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("a relative one: got %q, %v", dir, err)
	}
	t.Setenv(DirEnv, "")
	if dir, err := Dir(); err != nil || dir != DefaultDir() {
		t.Errorf("none: got %q, %v", dir, err)
	}
}
