package local

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/berthadmin"
	"github.com/berth-go/berth/cmd/berth/internal/connect"
	"github.com/berth-go/berth/cmd/berth/internal/private"
)

// writeTimeout is how long a client may leave its replies unread. The store publishes under
// its one lock, so a suspended client with a full socket would block all others.
const writeTimeout = 2 * time.Second

// Server is an embedded store on a unix socket.
type Server struct {
	store    *miniredis.Miniredis
	socket   *private.Socket
	accepted sync.WaitGroup // the accept loop
	door     *door

	mu      sync.Mutex
	clients int           // open connections
	retired bool          // no more connections are taken
	changed chan struct{} // closed and replaced when clients changes
}

// Listen starts a store on the socket. Close ends it.
func Listen(socket string) (*Server, error) {
	listener, err := private.Listen(socket)
	if err != nil {
		return nil, err
	}
	s := &Server{store: miniredis.NewMiniRedis(), socket: listener, changed: make(chan struct{})}
	s.store.ClockTTL(true)
	// The first Dial starts miniredis without a listener of its own.
	conn, err := s.store.Dial()
	if err != nil {
		listener.Close()
		return nil, err
	}
	conn.Close()
	if err := s.addCommands(); err != nil {
		s.Close()
		return nil, err
	}
	s.accepted.Go(s.accept)
	return s, nil
}

// addCommands adds what miniredis does not have.
func (s *Server) addCommands() error {
	s.store.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		if cmd != "INFO" || len(args) != 1 || !strings.EqualFold(args[0], "memory") {
			return false
		}
		c.WriteBulk("# Memory\r\nmaxmemory_policy:noeviction\r\n") // or each client would go on asking
		return true
	})
	s.door = newDoor(s.store.Ctx.Done())
	return s.store.Server().Register(enterCommand, s.door.serve)
}

// Close ends the store and its connections.
func (s *Server) Close() {
	s.socket.Close()
	s.accepted.Wait()
	s.store.Close()
}

func (s *Server) accept() {
	for {
		conn, err := s.socket.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			<-time.After(100 * time.Millisecond) // out of files, most likely: others must close some
		case s.count(+1):
			s.store.Server().ServeConn(&clientConn{Conn: conn, gone: sync.OnceFunc(func() { s.count(-1) })})
		default:
			conn.Close()
		}
	}
}

// count notes that a client has connected or disconnected. It refuses clients once the store
// has retired.
func (s *Server) count(delta int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delta > 0 && s.retired {
		return false
	}
	s.clients += delta
	close(s.changed)
	s.changed = make(chan struct{})
	return true
}

// waitIdle returns when there was no connection for d and nothing is in use. From then on no
// connection is accepted.
func (s *Server) waitIdle(ctx context.Context, d time.Duration) {
	for ctx.Err() == nil {
		s.mu.Lock()
		clients, changed := s.clients, s.changed
		s.mu.Unlock()
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

// retire stops accepting connections if no client has connected since s.changed was changed.
func (s *Server) retire(changed chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = s.changed == changed
	return s.retired
}

// inUse reports whether a lease, a waiter, a pin or a pause would be lost with the store. A
// lease may have no connection: that of a shell script has none between "berth acquire" and
// "berth release". On errors it returns true.
func (s *Server) inUse(ctx context.Context) bool {
	rdb := connect.Through(func(context.Context, string, string) (net.Conn, error) { return s.store.Dial() })
	defer rdb.Close()
	seen := map[string]bool{}
	for _, key := range s.store.Keys() {
		// Before the hash tag is the prefix.
		prefix, _, ok := strings.Cut(key, ":{")
		if !ok || seen[prefix] {
			continue
		}
		if prefixInUse(ctx, rdb, prefix) {
			return true
		}
		seen[prefix] = true
	}
	return false
}

func prefixInUse(ctx context.Context, rdb redis.UniversalClient, prefix string) bool {
	in, err := berthadmin.New(rdb, berthadmin.Options{Prefix: prefix})
	if err != nil {
		return false // no prefix of berth's, nothing of berth's
	}
	for sem, err := range in.List(ctx) {
		if err != nil || sem.Holders > 0 || sem.Waiting > 0 || sem.Pinned || sem.RatesPinned || sem.Paused {
			return true
		}
	}
	return false
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
