package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-go/berth/internal/redistest"
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
		last.Env = []string{storeEnv + "=" + idle.String(), "GORACE=atexit_sleep_ms=0"}
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
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
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
		conn.SetDeadline(time.Now().Add(startTimeout))
		if err := ping(conn); err != nil {
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

// After its directory was removed the next command starts another store, and two stores would
// grant twice the limit: the first ends while somebody who watches would hardly notice.
func TestEndsSoonAfterItsDirectoryIsRemoved(t *testing.T) {
	dir := t.TempDir()
	for what, remove := range map[string]func(socket string) error{
		"removed":  func(string) error { return os.RemoveAll(dir) },
		"replaced": func(socket string) error { return os.Rename(socket+".new", socket) },
	} {
		socket := filepath.Join(dir, "sock")
		for _, name := range []string{socket, socket + ".new"} {
			if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(name, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			var ended time.Duration
			begin := time.Now()
			go func() {
				watchSocket(t.Context(), socket)
				ended = time.Since(begin)
			}()
			synctest.Wait() // it has seen the socket
			if err := remove(socket); err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * time.Second) // of the bubble
			synctest.Wait()
			if ended == 0 {
				t.Errorf("%s: the store is still there after 2s", what)
			}
		})
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

// A directory that somebody else has made, can enter, or can replace would let
// them see and grant this user's permits. Each refusal says what is wrong.
func TestPrepareDirRefuses(t *testing.T) {
	type test struct {
		prepare func(t *testing.T, base string) (dir string)
		says    string
	}
	tests := map[string]test{
		"link": {func(t *testing.T, base string) string {
			return link(t, mkdir(t, base, "target", 0o700), base)
		}, "not a directory"},
		"file": {func(t *testing.T, base string) string {
			path := filepath.Join(base, "file")
			return must(t, path, os.WriteFile(path, nil, 0o600))
		}, "not a directory"},
		"for the group": {func(t *testing.T, base string) string { return mkdir(t, base, "d", 0o750) }, "mode 0750"},
		"for everybody": {func(t *testing.T, base string) string { return mkdir(t, base, "d", 0o777) }, "mode 0777"},
		"in a directory for everybody": {func(t *testing.T, base string) string {
			return filepath.Join(mkdir(t, base, "p", 0o777), "d")
		}, "others can write to"},
		"in a directory for the group": {func(t *testing.T, base string) string {
			return filepath.Join(mkdir(t, base, "p", 0o770), "d")
		}, "others can write to"},
		"below a directory for everybody": {func(t *testing.T, base string) string {
			return filepath.Join(mkdir(t, mkdir(t, base, "p", 0o777), "q", 0o700), "d")
		}, "others can write to"},
		"behind a link into a directory for everybody": {func(t *testing.T, base string) string {
			return filepath.Join(link(t, mkdir(t, mkdir(t, base, "p", 0o777), "q", 0o700), base), "d")
		}, "others can write to"},
		"nowhere": {func(_ *testing.T, base string) string { return filepath.Join(base, "p", "d") }, "no such file"},
		"too long": {func(_ *testing.T, base string) string {
			return filepath.Join(base, strings.Repeat("x", 100))
		}, "too long"},
	}
	if os.Geteuid() == 0 { // nobody else can make another user's directory
		give := func(t *testing.T, dir string) string { return must(t, dir, os.Chown(dir, 12345, 12345)) }
		tests["another user's"] = test{func(t *testing.T, base string) string {
			return give(t, mkdir(t, base, "d", 0o700))
		}, "belongs to user 12345"}
		tests["in another user's directory"] = test{func(t *testing.T, base string) string {
			return filepath.Join(give(t, mkdir(t, base, "p", 0o755)), "d")
		}, "belongs to user 12345"}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := tt.prepare(t, private(t))
			err := prepareDir(dir)
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want an error with %q", err, tt.says)
			} else if strings.Contains(err.Error(), "remove it") || strings.Contains(err.Error(), "chmod") {
				t.Errorf("it may be anything, even /tmp: %v", err)
			}
			t.Log(err)
		})
	}
}

func TestPrepareDirAccepts(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, base string) (dir string){
		"new":   func(_ *testing.T, base string) string { return filepath.Join(base, "d") },
		"there": func(t *testing.T, base string) string { return mkdir(t, base, "d", 0o700) },
		"in a sticky directory": func(t *testing.T, base string) string {
			return filepath.Join(mkdir(t, base, "p", 0o777|os.ModeSticky), "d")
		},
		"behind a good link": func(t *testing.T, base string) string {
			return filepath.Join(link(t, mkdir(t, base, "p", 0o755), base), "d")
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := prepareDir(prepare(t, private(t))); err != nil {
				t.Error(err)
			}
		})
	}
}

// private returns a fresh directory that only this user can enter.
func private(t *testing.T) string {
	t.Helper()
	base, err := os.MkdirTemp("", "berth") // t.TempDir can be too long for a socket
	t.Cleanup(func() { os.RemoveAll(base) })
	return must(t, base, err)
}

func must(t *testing.T, path string, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func mkdir(t *testing.T, base, name string, mode os.FileMode) string {
	t.Helper()
	dir := filepath.Join(base, name)
	return must(t, dir, errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)))
}

func link(t *testing.T, target, base string) string {
	t.Helper()
	path := filepath.Join(base, "link")
	return must(t, path, os.Symlink(target, path))
}
