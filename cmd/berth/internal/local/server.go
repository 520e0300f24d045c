package local

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
	"github.com/berth-go/berth/cmd/berth/internal/connect"
)

// writeTimeout is how long a client may leave its replies unread. The store publishes under
// its one lock, so a suspended client with a full socket would block all others.
const writeTimeout = 2 * time.Second

// Server is an embedded store on a unix socket.
type Server struct {
	store    *miniredis.Miniredis
	listener *net.UnixListener
	accepted sync.WaitGroup // the accept loop

	mu      sync.Mutex
	clients int           // open connections
	closing bool          // no more connections are taken
	changed chan struct{} // closed and replaced when clients changes
}

// Listen starts a store on the socket. Close ends it.
func Listen(socket string) (*Server, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		listener.Close()
		return nil, err
	}
	s := &Server{
		store:    miniredis.NewMiniRedis(),
		listener: listener,
		changed:  make(chan struct{}),
	}
	s.store.ClockTTL(true)
	// The first Dial starts miniredis without a listener of its own.
	conn, err := s.store.Dial()
	if err != nil {
		listener.Close()
		return nil, err
	}
	conn.Close()
	s.accepted.Go(s.accept)
	return s, nil
}

// Close ends the store and its connections.
func (s *Server) Close() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.listener.Close() // removes the socket
	s.accepted.Wait()
	s.store.Close()
}

func (s *Server) accept() {
	srv := s.store.Server()
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if s.isClosing() {
				return
			}
			<-time.After(100 * time.Millisecond) // out of files, most likely: others must close some
			continue
		}
		if !s.count(+1) {
			conn.Close()
			return
		}
		srv.ServeConn(&clientConn{Conn: conn, gone: sync.OnceFunc(func() { s.count(-1) })})
	}
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// count notes that a client has connected or disconnected. It refuses clients once the store
// ends.
func (s *Server) count(delta int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delta > 0 && s.closing {
		return false
	}
	s.clients += delta
	close(s.changed)
	s.changed = make(chan struct{})
	return true
}

// now returns how many clients there are, and a channel that closes when that
// changes.
func (s *Server) now() (clients int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients, s.changed
}

// retire stops accepting connections if no client has connected since now returned changed.
func (s *Server) retire(changed <-chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != changed {
		return false
	}
	s.closing = true
	return true
}

// waitIdle returns when there was no connection for d and nothing is in use. From then on no
// connection is accepted.
func (s *Server) waitIdle(ctx context.Context, d time.Duration) {
	for ctx.Err() == nil {
		clients, changed := s.now()
		var quiet <-chan time.Time
		if clients == 0 {
			quiet = time.After(d)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-quiet:
			if !s.inUse(ctx) && s.retire(changed) {
				return
			}
		}
	}
}

// inUse reports whether a lease, a waiter, a pin or a pause would be lost with the store. A
// lease may have no connection: that of a shell script has none between "berth acquire" and
// "berth release". On errors it returns true.
func (s *Server) inUse(ctx context.Context) bool {
	rdb := connect.Through(func(context.Context, string, string) (net.Conn, error) { return s.store.Dial() })
	defer rdb.Close()
	prefixes, err := keyPrefixes(ctx, rdb)
	if err != nil {
		return true
	}
	for _, prefix := range prefixes {
		used, err := prefixInUse(ctx, rdb, prefix)
		if err != nil || used {
			return true
		}
	}
	return false
}

func prefixInUse(ctx context.Context, rdb redis.UniversalClient, prefix string) (bool, error) {
	client, err := berth.New(rdb, berth.Prefix(prefix))
	if err != nil {
		return false, nil // no prefix of berth's, nothing of berth's
	}
	defer client.Close()
	for sem, err := range client.Inspector().List(ctx) {
		if err != nil {
			return false, err
		}
		if sem.Holders > 0 || sem.Waiting > 0 || sem.Pinned || sem.Paused {
			return true, nil
		}
	}
	return false, nil
}

// keyPrefixes returns the prefixes of the stored keys, which end before the hash tags.
func keyPrefixes(ctx context.Context, rdb redis.UniversalClient) ([]string, error) {
	seen := map[string]bool{}
	var prefixes []string
	iter := rdb.Scan(ctx, 0, "*", 1000).Iterator()
	for iter.Next(ctx) {
		prefix, _, ok := strings.Cut(iter.Val(), ":{")
		if ok && !seen[prefix] {
			seen[prefix] = true
			prefixes = append(prefixes, prefix)
		}
	}
	if err := iter.Err(); err != nil {
		return nil, fmt.Errorf("scan: %w", err)
	}
	return prefixes, nil
}

// clientConn counts itself as disconnected when it is closed, and drops a client that does
// not read its replies.
type clientConn struct {
	net.Conn
	gone func()
}

// Write implements net.Conn.
func (c *clientConn) Write(p []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(writeTimeout))
	n, err := c.Conn.Write(p)
	if err != nil {
		c.Close()
	}
	return n, err
}

// Close implements net.Conn.
func (c *clientConn) Close() error {
	c.gone()
	return c.Conn.Close()
}
