package local

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/cmd/berth/internal/private"
)

// TestDoorLetsInAFewAtATime: who comes when as many begin as may waits until one of them has
// begun, and those who wait come in in turn.
func TestDoorLetsInAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(nil)
		var inside []func()
		for range beginners {
			inside = append(inside, d.enter())
		}
		var in []int
		leave := make(chan func(), 2)
		for i := range 2 {
			go func() {
				out := d.enter()
				in = append(in, i)
				leave <- out
			}()
			synctest.Wait()
		}
		if len(in) > 0 {
			t.Fatal("one more than may has begun")
		}
		inside[3]()
		inside[3]() // a second time does not count
		synctest.Wait()
		if len(in) != 1 || in[0] != 0 {
			t.Fatalf("%v came in when one had begun, want the first", in)
		}
		(<-leave)()
		synctest.Wait()
		if len(in) != 2 {
			t.Fatalf("%v came in when two had begun", in)
		}
		for _, f := range append(inside, <-leave) {
			f()
		}
		if len(d.turns) != beginners {
			t.Errorf("%d may come in at the end, want %d", len(d.turns), beginners)
		}
	})
}

// TestDoorForgetsWhoIsSuspended: those who never get further keep nobody out for long.
func TestDoorForgetsWhoIsSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(nil)
		var suspended []func()
		for range beginners {
			suspended = append(suspended, d.enter())
		}
		start := time.Now()
		leave := d.enter()
		if waited := time.Since(start); waited != mostBeginning {
			t.Errorf("it waited for %v, want %v", waited, mostBeginning)
		}
		leave()
		for _, f := range suspended { // continued at last
			f()
		}
		if len(d.turns) != beginners {
			t.Errorf("%d may come in at the end, want %d", len(d.turns), beginners)
		}
	})
}

// TestDoorIsNoObstacleToTheEnd of the store.
func TestDoorIsNoObstacleToTheEnd(t *testing.T) {
	closed := make(chan struct{})
	d := newDoor(closed)
	for range beginners {
		defer d.enter()()
	}
	close(closed)
	if d.enter() != nil {
		t.Error("one came in after the end")
	}
}

// TestWhoHangsUpHasBegun, or has gone: others may come in.
func TestWhoHangsUpHasBegun(t *testing.T) {
	s, _ := testStore(t, time.Minute)
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	server, err := Listen(s.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	server.door.most = time.Hour
	for range 3 * beginners {
		leave, err := s.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave()
	}
	for range beginners {
		select {
		case <-server.door.turns:
		case <-time.After(time.Minute):
			t.Fatal("not all of them count as gone")
		}
	}
}

// TestCrowdEntersInTurn, whatever becomes of the store meanwhile: those who wait at the door of
// one that was killed find the next.
func TestCrowdEntersInTurn(t *testing.T) {
	s, process := testStore(t, time.Minute)
	var inside []func()
	for range beginners {
		leave, err := s.Enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		inside = append(inside, leave)
	}
	first := process()
	var crowd sync.WaitGroup
	for range 3 * beginners {
		crowd.Go(func() {
			leave, err := s.Enter(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			leave()
		})
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	crowd.Wait()
	for _, leave := range inside {
		leave()
	}
	if process() == first {
		t.Error("there was no second store")
	}
}

// TestSuspendedStoreIsWaitedFor: no other is started while its process lives, and who gives up
// is told why. When it goes on, so do its clients.
func TestSuspendedStoreIsWaitedFor(t *testing.T) {
	s, process := testStore(t, time.Minute)
	conn, err := s.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	first := process()
	if err := first.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	patient := make(chan error)
	for range 2 {
		go func() {
			leave, err := s.Enter(t.Context())
			if err == nil {
				leave()
			}
			patient <- err
		}()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who gives up is told %v", err)
	}
	if err := first.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-patient; err != nil {
			t.Errorf("who waits is told %v", err)
		}
	}
	if process() != first {
		t.Error("another store was started")
	}
}

// fullSocket listens on a socket that has as many connections as it queues.
func fullSocket(t *testing.T, path string) net.Listener {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: path}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "store")
	listener, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	for {
		conn, err := net.Dial("unix", path)
		if err != nil {
			return listener
		}
		t.Cleanup(func() { conn.Close() })
	}
}

// answerPings answers whoever connects, until the listener is closed.
func answerPings(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			if n, _ := conn.Read(make([]byte, 64)); n > 0 {
				_, _ = conn.Write([]byte("+PONG\r\n"))
			}
		}()
	}
}

// TestFullSocketIsWaitedFor: where more want to connect than the socket can queue, the system
// refuses; but the store lives.
func TestFullSocketIsWaitedFor(t *testing.T) {
	s, process := testStore(t, time.Minute)
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	held, err := private.Lock(t.Context(), filepath.Join(s.Dir, storeLockName))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	listener := fullSocket(t, s.socket())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Dial(ctx, "", ""); !errors.Is(err, context.DeadlineExceeded) || process() != nil {
		t.Errorf("who gives up is told %v, another store: %v", err, process())
	}
	dialled := make(chan error)
	go func() {
		conn, err := s.Dial(t.Context(), "", "")
		if err == nil {
			conn.Close()
		}
		dialled <- err
	}()
	go answerPings(listener)
	if err := <-dialled; err != nil {
		t.Error(err)
	}
	listener.Close()
	if process() != nil {
		t.Error("another store was started")
	}
}
