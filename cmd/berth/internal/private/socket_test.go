package private

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestCloseLeavesTheSocketOfAnother: after a clean-up of the directory, another process listens there.
func TestCloseLeavesTheSocketOfAnother(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(own(t), "s")
	first, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	second, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatalf("the other one cannot be reached: %v", err)
	}
	conn.Close()
	second.Close()
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its own socket is left: %v", err)
	}
}

// TestASocketIsItsUsersAlone.
func TestASocketIsItsUsersAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(own(t), "s")
	s, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}

// TestWatchEndsSoonAfterASocketIsGone: whoever looks for it starts another one, and two stores
// would grant twice the limit.
func TestWatchEndsSoonAfterASocketIsGone(t *testing.T) {
	t.Parallel()
	for what, remove := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return os.Rename(path+".new", path) },
	} {
		path := filepath.Join(own(t), "s")
		if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan struct{})
			go func() {
				s.Watch(t.Context())
				close(ended)
			}()
			select {
			case <-ended:
				t.Errorf("%s: it ended, although the socket is there", what)
			case <-time.After(time.Minute):
			}
			if err := remove(path); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
			case <-time.After(2 * time.Second):
				t.Errorf("%s: it still watches after 2s", what)
			}
		})
		s.Close()
	}
}
