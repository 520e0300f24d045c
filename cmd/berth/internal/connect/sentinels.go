package connect

import (
	"context"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// askSentinels is a hook by which a new connection asks the sentinels for the master with the
// credentials that the target's URL has now. go-redis knows no provider of those. But whenever it needs
// a client of a sentinel, it makes one of the options that the failover client was made of, and that is
// only while a connection is made. A client whose sentinel no longer lets it in is replaced.
type askSentinels struct {
	target  *Target
	mu      sync.RWMutex // held for reading while go-redis may read options
	options *redis.FailoverOptions
}

// DialHook implements redis.Hook.
func (a *askSentinels) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		now := a.target.now()
		a.logIn(&now.opts)
		a.mu.RLock()
		defer a.mu.RUnlock()
		return next(context.WithValue(ctx, readKey{}, now), network, addr) // or dial would read it again
	}
}

// logIn sets the credentials if they have changed: so dials wait for each other only then.
func (a *askSentinels) logIn(now *redis.UniversalOptions) {
	a.mu.RLock()
	same := a.options.SentinelUsername == now.SentinelUsername && a.options.SentinelPassword == now.SentinelPassword
	a.mu.RUnlock()
	if !same {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.options.SentinelUsername, a.options.SentinelPassword = now.SentinelUsername, now.SentinelPassword
	}
}

// ProcessHook implements redis.Hook.
func (*askSentinels) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (*askSentinels) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
