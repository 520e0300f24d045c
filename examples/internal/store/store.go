// Package store connects an example to the Redis at a URL, or to an embedded one, so that
// every example runs on a machine without Redis.
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
	embedded *miniredis.Miniredis // nil: none; its data end with this process
}

// Open returns the Redis at url, or starts an embedded one, on a free port of the
// loopback interface, if url is empty. Close it.
func Open(url string) (s *Store, err error) {
	s = &Store{URL: url}
	if url == "" {
		s.embedded = miniredis.NewMiniRedis()
		s.embedded.ClockTTL(true) // keys expire with time, as in a real server
		if err := s.embedded.Start(); err != nil {
			return nil, err
		}
		s.URL = "redis://" + s.embedded.Addr()
	}
	s.Redis, err = connect(s.URL)
	return s, err
}

// Close closes the connections and ends an embedded store.
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
		// Not the error itself, which quotes the URL with its password.
		return nil, errors.New("the Redis URL is malformed: write redis://host:6379/0, rediss://… or unix:///path/to/socket")
	}
	// If Redis is away, a call must not take longer than its context allows: go-redis would
	// dial 5 times for each of 4 attempts.
	opts.ContextTimeoutEnabled = true
	opts.DialerRetries = 1
	return redis.NewClient(opts), nil
}

// Client returns a Redis client for a URL, and a berth client that uses it. Close both,
// the berth client first.
func Client(url string, opts ...berth.ClientOption) (*redis.Client, *berth.Client, error) {
	rdb, err := connect(url)
	if err != nil {
		return nil, nil, err
	}
	client, err := berth.New(rdb, opts...)
	return rdb, client, err
}

// String describes the store for the first line of a program's output.
func (s *Store) String() string {
	if s.embedded != nil {
		return "an embedded store (no -redis given): it ends with this program"
	}
	return "the Redis of -redis"
}
