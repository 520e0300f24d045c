// Package store gives an example program its Redis: the one that a URL names,
// or an embedded one, so that every example runs on a machine without Redis.
package store

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Store is a Redis that a program and its child processes share.
type Store struct {
	URL      string // for Connect, in this process or another
	Embedded bool   // it keeps nothing and ends with this process
	stop     func()
}

// Open returns the Redis at url, or starts an embedded one if url is empty. The
// latter listens on a unix socket in a directory that only this user may enter.
func Open(url string) (*Store, error) {
	if url != "" {
		return &Store{URL: url, stop: func() {}}, nil
	}
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "s")
	stop, err := serve(socket)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return &Store{URL: "unix://" + socket, Embedded: true, stop: func() {
		stop()
		_ = os.RemoveAll(dir)
	}}, nil
}

// Close ends an embedded store. Any other stays as it is.
func (s *Store) Close() { s.stop() }

func serve(socket string) (stop func(), err error) {
	mr := miniredis.NewMiniRedis()
	mr.ClockTTL(true)      // keys expire as time goes by, as in a real server
	conn, err := mr.Dial() // starts it without a listener of its own
	if err != nil {
		return nil, err
	}
	conn.Close()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		mr.Close()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mr.Server().ServeConn(conn)
		}
	}()
	return func() {
		listener.Close()
		<-done // or a connection could be served after the end
		mr.Close()
	}, nil
}

// Connect returns a client for a URL of the forms redis://, rediss:// and
// unix://.
func Connect(url string) (*redis.Client, error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		// Not the error itself: it quotes the URL, password and all.
		return nil, errors.New("the Redis URL is none: write redis://host:6379/0, rediss://… or unix:///path/to/socket")
	}
	// A Redis that is away must not hold a call up for longer than the call's
	// context: go-redis would dial 5 times, 4 times over.
	opts.ContextTimeoutEnabled = true
	opts.DialerRetries = 1
	return redis.NewClient(opts), nil
}

// String implements fmt.Stringer for the programs' first line of output.
func (s *Store) String() string {
	if s.Embedded {
		return "an embedded store (no -redis given): it ends with this program"
	}
	return "the Redis of -redis"
}

// Quiet keeps go-redis from logging every failed attempt to connect. It must be
// called before the first Connect.
func Quiet() { redis.SetLogger(silent{}) }

type silent struct{}

// Printf implements go-redis's logger, and logs nothing.
func (silent) Printf(context.Context, string, ...any) {}
