// Package store connects an example to the Redis at a URL, or to an embedded one, so that
// every example runs on a machine without Redis.
package store

import (
	"errors"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Store is a Redis that a program and its child processes share.
type Store struct {
	*redis.Client

	URL      string               // for Open, in another process
	embedded *miniredis.Miniredis // nil: none; its data end with this process
}

// Open returns the Redis at url, or starts an embedded one, on a free port of the
// loopback interface, if url is empty. Close it.
func Open(url string) (*Store, error) {
	s := &Store{URL: url}
	if url == "" {
		s.embedded = miniredis.NewMiniRedis()
		s.embedded.ClockTTL(true) // keys expire with time, as in a real server
		if err := s.embedded.Start(); err != nil {
			return nil, err
		}
		s.URL = "redis://" + s.embedded.Addr()
	}
	opts, err := redis.ParseURL(s.URL)
	if err != nil {
		// Not the error itself, which quotes the URL with its password.
		return nil, errors.New("the Redis URL is malformed: write redis://host:6379/0, rediss://… or unix:///path/to/socket")
	}
	// If Redis is away, a call must not take longer than its context allows: go-redis would
	// dial 5 times for each of 4 attempts.
	opts.ContextTimeoutEnabled = true
	opts.DialerRetries = 1
	s.Client = redis.NewClient(opts)
	return s, nil
}

// Close closes the connections and ends an embedded store.
func (s *Store) Close() {
	_ = s.Client.Close()
	if s.embedded != nil {
		s.embedded.Close()
	}
}

// String describes the store for the first line of a program's output.
func (s *Store) String() string {
	if s.embedded != nil {
		return "an embedded store (no -redis given): it ends with this program"
	}
	return "the Redis of -redis"
}
