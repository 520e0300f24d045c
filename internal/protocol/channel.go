package protocol

import (
	"strings"

	"github.com/redis/go-redis/v9"
)

// Sharded reports whether messages go through shard channels, one for each
// semaphore, as they must in a Redis Cluster.
func (s *Store) Sharded() bool {
	_, ok := s.rdb.(*redis.ClusterClient)
	return ok
}

// Channel returns the channel for messages to this process about the semaphore with this
// state key; without a cluster it is the same for all semaphores.
func (s *Store) Channel(state string) string {
	if s.Sharded() {
		return state + ":" + s.channel
	}
	return s.inboxes() + s.channel
}

// StateOf returns the state key of the semaphore that a shard channel of this process is
// about.
func (s *Store) StateOf(channel string) string {
	return strings.TrimSuffix(channel, ":"+s.channel)
}

// AllChannels is the pattern that matches the channels of all processes, and others: see
// IsChannel. Users have the right to this very pattern, and not to narrower ones.
func (s *Store) AllChannels() string { return s.prefix + ":*" }

// IsChannel reports whether this is the channel of a process, where there are no shards.
func (s *Store) IsChannel(channel string) bool { return strings.HasPrefix(channel, s.inboxes()) }

func (s *Store) inboxes() string { return s.prefix + ":inbox:" }
