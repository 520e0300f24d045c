package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-go/berth/cmd/berth/internal/local"
	"github.com/berth-go/berth/cmd/berth/internal/private"
)

const (
	// SocketEnv is the environment variable with the path of the agent's socket, for the agent
	// and its clients.
	SocketEnv  = "BERTH_AGENT_SOCKET"
	socketName = "agent.sock"
	// handover is how long an agent waits for the end of another one on its socket.
	handover = time.Second
)

// ErrTaken: another agent serves the socket.
var ErrTaken = errors.New("another agent serves it")

// DefaultSocket returns $BERTH_AGENT_SOCKET, which must be an absolute path, or else a path
// beside this user's local store.
func DefaultSocket() (string, error) {
	path := os.Getenv(SocketEnv)
	if path == "" {
		dir, err := local.Dir()
		return filepath.Join(dir, socketName), err
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("$%s is %q: it must be an absolute path", SocketEnv, path)
	}
	return filepath.Clean(path), nil
}

// IsAddress reports whether where to listen is a TCP address, and not a path.
func IsAddress(where string) bool {
	return !strings.Contains(where, "/") && strings.Contains(where, ":")
}

// CheckAddress refuses a TCP address that others than this machine could reach.
func CheckAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return fmt.Errorf("%q is neither a path nor an ADDRESS:PORT such as 127.0.0.1:7358", address)
	case !private.Loopback(host):
		return fmt.Errorf("%s is open to other machines: listen on 127.0.0.1, or on a unix socket", address)
	}
	return nil
}

// Socket is the agent's: no other agent serves it for as long as it is open.
type Socket struct {
	*private.Socket
	lock *os.File
}

// Listen listens on a unix socket, in a directory that only this user can enter, which it
// makes. The error is ErrTaken if another agent does.
func Listen(ctx context.Context, path string) (*Socket, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	where := private.Dir{Path: dir, Socket: name, Setting: "--listen or " + SocketEnv, Default: dir == local.DefaultDir()}
	if err := where.Prepare(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handover)
	defer cancel()
	lock, err := private.Lock(ctx, path+".lock")
	if errors.Is(err, private.ErrLocked) {
		pid, _ := os.ReadFile(path + ".lock")
		return nil, fmt.Errorf("%s: %w, process %s: stop that one, or listen on another path", path, ErrTaken, strings.TrimSpace(string(pid)))
	}
	if err != nil {
		return nil, err
	}
	s, err := open(path, lock)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &Socket{s, lock}, nil
}

// open listens once it has the lock: what is there is a leftover. It removes nothing but a
// socket, as somebody may have mistyped the path.
func open(path string, lock *os.File) (*private.Socket, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket == 0 {
		return nil, fmt.Errorf("%s is not a socket: remove it, or listen on another path", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := private.NotePID(lock); err != nil {
		return nil, err
	}
	return private.Listen(path)
}

// Close implements net.Listener. From then on another agent can serve the path.
func (s *Socket) Close() error {
	err := s.Socket.Close()
	s.lock.Close()
	return err
}
