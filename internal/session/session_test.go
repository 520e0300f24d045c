package session

import (
	"log/slog"
	"runtime"
	"testing"

	"github.com/redis/go-redis/v9"
)

// unused returns a session that is given no reason to send anything.
func unused(t *testing.T) *Session {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	s := New(rdb, "berth", slog.New(slog.DiscardHandler))
	t.Cleanup(s.Close)
	return s
}

// TestForgottenSemaphoreLeavesItsSuccessor: the garbage collector tells of a semaphore's end when
// another one may have its name.
func TestForgottenSemaphoreLeavesItsSuccessor(t *testing.T) {
	s := unused(t)
	key := s.store.Key("a").State
	sem := s.Semaphore("a")
	s.forget(key)
	if s.find(key) != sem || s.Semaphore("a") != sem {
		t.Error("there are two of one name")
	}
	runtime.KeepAlive(sem)
}

// TestUnusedSemaphoresAreForgotten: a process that uses new names all the time keeps nothing of
// the old ones.
func TestUnusedSemaphoresAreForgotten(t *testing.T) {
	s := unused(t)
	s.Semaphore("a")
	names := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sems)
	}
	for range 10_000 {
		if names() == 0 {
			return
		}
		runtime.GC()
	}
	t.Error("it is kept")
}
