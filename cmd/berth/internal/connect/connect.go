// Package connect turns a Redis URL into a client whose time-outs suit a
// command line: it gives up soon, never repeats a command by itself, and never
// shows the URL's password.
package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Time-outs, which suit a person who waits at a prompt.
const (
	dialTimeout = 3 * time.Second
	ioTimeout   = 3 * time.Second
	// never is longer than anybody waits for a connection.
	never = 365 * 24 * time.Hour
	// keepAlive is that of go-redis.
	keepAlive = 5 * time.Minute
	// clusterReload is how often a cluster's topology is read again, so that a dead master
	// is left soon; by default go-redis stays with it for a minute.
	clusterReload = time.Second
)

// kind is the kind of Redis behind a URL.
type kind int

const (
	single kind = iota
	sentinel
	cluster
)

// Target is a parsed URL. It has no String method on purpose: it holds secrets.
type Target struct {
	kind kind
	tls  *tls.Config            // go-redis is not to know of it: dial shakes hands
	opts redis.UniversalOptions // those of the URL
	near bool                   // see Through

	read func() (string, error) // the URL as it is now; nil: it is as it was
	last atomic.Pointer[Target] // what it was when it was read last; nil: this
}

// ReadAgain makes the target's clients read the URL again for each new connection: they log in with
// its users and passwords, and with the certificates that its files have by then, so that those can be
// changed while the program runs. While it cannot be read, what was read last counts. The servers'
// addresses remain as they were. It must be called before Client.
func (t *Target) ReadAgain(read func() (string, error)) { t.read = read }

// now is the target with the credentials that its URL has now.
func (t *Target) now() *Target {
	if t.read == nil {
		return t
	}
	if raw, err := t.read(); err == nil {
		if now, err := Parse(raw); err == nil && (now.tls == nil) == (t.tls == nil) {
			t.last.Store(now)
			return now
		}
	}
	return cmp.Or(t.last.Load(), t)
}

// readKey is the key of a context's target, as it was read for a connection that is being made.
type readKey struct{}

// dialed is the target as it was read for the connection that ctx is to make, or as it is now.
func (t *Target) dialed(ctx context.Context) *Target {
	if read, ok := ctx.Value(readKey{}).(*Target); ok {
		return read
	}
	return t.now()
}

// credentials are what a new connection logs in with: as they are then, which may be long after it
// was made.
func (t *Target) credentials(context.Context) (user, password string, err error) {
	now := t.now()
	return now.opts.Username, now.opts.Password, nil
}

// Where names the server for people: its address and database, without any secret.
func (t *Target) Where() string {
	at := strings.Join(t.opts.Addrs, ",")
	switch {
	case t.kind == sentinel:
		return fmt.Sprintf("%s/%d at the sentinels %s", t.opts.MasterName, t.opts.DB, at)
	case t.kind == cluster:
		return "the Cluster at " + at
	case strings.HasPrefix(at, "/"):
		return fmt.Sprintf("%s, database %d", at, t.opts.DB)
	}
	return fmt.Sprintf("%s/%d", at, t.opts.DB)
}

// Client returns a client for the target. It sends nothing.
func (t *Target) Client() redis.UniversalClient {
	o := t.opts
	if o.Dialer == nil {
		o.Dialer = t.dial
	}
	if t.read != nil {
		o.CredentialsProviderContext = t.credentials
	}
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1 // berth repeats what may be repeated
	o.DialerRetries = 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = dialTimeout, ioTimeout, ioTimeout
	if t.near {
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = never, -1, -1
	}
	// This avoids a handshake that only one managed service answers.
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.IsClusterMode = t.kind == cluster
	if o.IsClusterMode {
		c := o.Cluster()
		c.ClusterStateReloadInterval = clusterReload
		return redis.NewClusterClient(c)
	}
	if t.kind == sentinel && t.read != nil {
		f := o.Failover()
		c := redis.NewFailoverClient(f)
		c.AddHook(&askSentinels{target: t, options: f})
		return c
	}
	return redis.NewUniversalClient(&o)
}

// Through returns a client whose connections come from dial, and lead to a process of this
// machine. Only contexts bound its calls: when such a process ends, so do its connections,
// and while it lives it will answer, however busy the machine is.
func Through(dial func(ctx context.Context, network, addr string) (net.Conn, error)) redis.UniversalClient {
	return (&Target{near: true, opts: redis.UniversalOptions{Addrs: []string{"local"}, Dialer: dial}}).Client()
}
