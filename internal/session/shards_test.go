package session

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/claim"
	"github.com/berth-go/berth/internal/clock"
	"github.com/berth-go/berth/internal/protocol"
)

// recorded are shards whose subscriptions go to a set.
func recorded(t *testing.T) (h *shards, subscribed map[string]bool) {
	subscribed = map[string]bool{}
	h = &shards{
		subscribe:   func(key string) { subscribed[key] = true },
		unsubscribe: func(key string) { delete(subscribed, key) },
	}
	t.Cleanup(h.stop)
	return h, subscribed
}

// TestSubscriptionsFollowTheUse: a semaphore in use is subscribed to, one that is not used any
// more for at least linger and twice that at most.
func TestSubscriptionsFollowTheUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, subscribed := recorded(t)
		want := func(key string, is bool) {
			t.Helper()
			synctest.Wait()
			h.mu.Lock()
			defer h.mu.Unlock()
			if subscribed[key] != is {
				t.Errorf("%s is subscribed to: %v", key, !is)
			}
		}
		h.use("kept", true)
		for _, pause := range []time.Duration{0, linger / 2, linger - time.Millisecond, 3 * linger, linger} {
			h.use("a", true)
			want("a", true)
			<-time.After(3 * linger)
			want("a", true)
			h.use("a", false)
			<-time.After(pause)
			want("a", pause < linger)
		}
		h.use("a", true)
		h.use("a", false)
		h.use("b", true)
		<-time.After(linger - time.Millisecond)
		h.use("b", false)
		want("a", true)
		<-time.After(2 * time.Millisecond)
		want("a", false)
		want("b", true)
		<-time.After(linger)
		want("b", false)
		want("kept", true)
		h.use("b", true)
		h.use("b", false)
		h.stop()
		<-time.After(3 * linger)
		want("b", true)
	})
}

// TestOperationsWithoutPermitsSubscribeToNothing: no message is about them, and whoever releases one
// handle after the other would have a subscription for each name.
func TestOperationsWithoutPermitsSubscribeToNothing(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { _ = rdb.Close() })
	s := New(rdb, "berth", slog.New(slog.DiscardHandler))
	s.cancel() // nothing is sent
	var told []string
	s.shards.subscribe = func(key string) { told = append(told, "+"+key) }
	sem := s.Semaphore("a")
	doing, asking := sem.newRequest(terms(true), false), sem.newRequest(terms(true), false)
	for _, step := range []struct {
		r     *Request
		event claim.Effect
		want  string
	}{
		{doing, doing.claim.Do(&protocol.Op{Verb: protocol.Pin}, clock.Now()), ""},
		{asking, asking.claim.Ask(clock.Now()), "+berth:{a}"},
	} {
		if err := sem.admit(step.r, step.event); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(told, " "); got != step.want {
			t.Errorf("subscriptions: %q, want %q", got, step.want)
		}
	}
}
