// Package store gives an example program its Redis: the one that a URL names,
// or an embedded one, so that every example runs on a machine without Redis.
package store

import (
	"errors"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth"
)

// Store is a Redis that a program and its child processes share.
type Store struct {
	URL      string // for Client, in another process
	Redis    *redis.Client
	embedded *miniredis.Miniredis // nil: none; it keeps nothing and ends with this process
}

// Open returns the Redis at url, or starts an embedded one, on a free port of the
// loopback interface, if url is empty. Close it.
func Open(url string) (s *Store, err error) {
	s = &Store{URL: url}
	if url == "" {
		s.embedded = miniredis.NewMiniRedis()
		s.embedded.ClockTTL(true) // keys expire as time goes by, as in a real server
		if err := s.embedded.Start(); err != nil {
			return nil, err
		}
		s.URL = "redis://" + s.embedded.Addr()
	}
	s.Redis, err = connect(s.URL)
	return s, err
}

// Close ends the connections, and an embedded store. Any other stays as it is.
func (s *Store) Close() {
	_ = s.Redis.Close()
	if s.embedded != nil {
		s.embedded.Close()
	}
}

// connect returns a client for a URL of the forms redis://, rediss:// and
// unix://.
func connect(url string) (*redis.Client, error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		// Not the error itself: it quotes the URL, password and all.
		return nil, errors.New("the Redis URL is malformed: write redis://host:6379/0, rediss://… or unix:///path/to/socket")
	}
	// A Redis that is away must not hold a call up for longer than the call's
	// context: go-redis would dial 5 times, 4 times over.
	opts.ContextTimeoutEnabled = true
	opts.DialerRetries = 1
	return redis.NewClient(opts), nil
}

// Client returns a client for a URL, and a berth on it. Close both, the berth first.
func Client(url string, opts ...berth.ClientOption) (*redis.Client, *berth.Client, error) {
	rdb, err := connect(url)
	if err != nil {
		return nil, nil, err
	}
	client, err := berth.New(rdb, opts...)
	return rdb, client, err
}

// String implements fmt.Stringer for the programs' first line of output.
func (s *Store) String() string {
	if s.embedded != nil {
		return "an embedded store (no -redis given): it ends with this program"
	}
	return "the Redis of -redis"
}
