package private

import (
	"context"
	"net"
	"os"
	"time"
)

// checkEvery is how often Watch looks whether a socket is still there, which costs
// microseconds.
const checkEvery = time.Second

// Socket is a unix socket on which this process listens, and which only its user can use.
type Socket struct {
	*net.UnixListener
	path string
	file os.FileInfo
}

// Listen makes a socket, where there must be none.
func Listen(path string) (*Socket, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // by then there may be another one's socket
	err = os.Chmod(path, 0o600)
	var file os.FileInfo
	if err == nil {
		file, err = os.Lstat(path)
	}
	if err != nil {
		listener.Close()
		return nil, err
	}
	return &Socket{listener, path, file}, nil
}

// Close implements net.Listener. It removes the socket, unless that was replaced by another
// process's: somebody may have removed its directory.
func (s *Socket) Close() error {
	if s.there() {
		_ = os.Remove(s.path)
	}
	return s.UnixListener.Close()
}

// there reports whether the path still leads to this socket.
func (s *Socket) there() bool {
	now, err := os.Lstat(s.path)
	return err == nil && os.SameFile(s.file, now)
}

// Watch returns when ctx ends or when the socket was removed or replaced, for example by a
// clean-up of its directory: then nobody can reach this process any more.
func (s *Socket) Watch(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for s.there() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
