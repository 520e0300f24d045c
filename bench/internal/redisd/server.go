// Package redisd is the Redis under the benchmarks: a server of their own, or
// one that the user names, what it says of its work, and the removal of keys.
package redisd

import (
	"fmt"

	"github.com/berth-go/berth/internal/redisserver"
)

// Server is a redis-server that belongs to one run.
type Server struct{ *redisserver.Server }

// Start runs a redis-server without persistence on a free port of 127.0.0.1
// and returns when it answers. On failure nothing is left behind; the error
// says what is missing.
func Start() (*Server, error) {
	s, err := redisserver.Start(redisserver.Config{TCP: true})
	if err != nil {
		return nil, fmt.Errorf("a server of the benchmarks' own, in place of --redis: %w", err)
	}
	return &Server{s}, nil
}

// URL returns the server's TCP address: what most programs use.
func (s *Server) URL() string { return "redis://" + s.Addr() }
