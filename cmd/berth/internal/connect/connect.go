// Package connect turns a Redis URL into a client whose time-outs suit a
// command line: it gives up soon, never repeats a command by itself, and never
// shows the URL's password.
package connect

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Time-outs. A server that is silent for longer than these is as good as gone
// for somebody who waits at a prompt.
const (
	dialTimeout = 3 * time.Second
	ioTimeout   = 3 * time.Second
	// keepAlive is go-redis's.
	keepAlive = 5 * time.Minute
	// A cluster's topology is re-read this often, so that a dead master is left
	// for its successor at once; go-redis's default stays with it for a minute.
	clusterReload = time.Second
)

// kind is the shape of the Redis behind a URL.
type kind int

const (
	single kind = iota
	sentinel
	cluster
)

// Target is a parsed URL. It has no String method on purpose: it holds secrets.
type Target struct {
	kind     kind
	network  string // "tcp" or "unix"
	addrs    []string
	master   string // sentinel only
	username string
	password string
	db       int
	tls      *tls.Config

	sentinelUsername, sentinelPassword string
}

// Dialer opens the connections of a client.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// Client returns a client for the target. Nothing is sent yet.
func (t *Target) Client() redis.UniversalClient {
	switch t.kind {
	case sentinel:
		return redis.NewFailoverClient(t.failoverOptions())
	case cluster:
		return redis.NewClusterClient(t.clusterOptions())
	default:
		return redis.NewClient(t.options())
	}
}

// Through returns a client whose connections come from dial.
func Through(dial Dialer) redis.UniversalClient {
	o := (&Target{network: "unix", addrs: []string{"local"}}).options() // nothing of it is dialled
	o.Dialer = dial
	return redis.NewClient(o)
}

func (t *Target) options() *redis.Options {
	return &redis.Options{
		Network:               t.network,
		Addr:                  t.addrs[0],
		Username:              t.username,
		Password:              t.password,
		DB:                    t.db,
		Dialer:                t.dial,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1, // berth repeats what may be repeated
		DialerRetries:         1,
		DialTimeout:           dialTimeout,
		ReadTimeout:           ioTimeout,
		WriteTimeout:          ioTimeout,

		MaintNotificationsConfig: noMaintenance(),
	}
}

func (t *Target) failoverOptions() *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName:            t.master,
		SentinelAddrs:         t.addrs,
		SentinelUsername:      t.sentinelUsername,
		SentinelPassword:      t.sentinelPassword,
		Username:              t.username,
		Password:              t.password,
		DB:                    t.db,
		Dialer:                t.dial,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialerRetries:         1,
		DialTimeout:           dialTimeout,
		ReadTimeout:           ioTimeout,
		WriteTimeout:          ioTimeout,
	}
}

func (t *Target) clusterOptions() *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs:                      t.addrs,
		Username:                   t.username,
		Password:                   t.password,
		Dialer:                     t.dial,
		ContextTimeoutEnabled:      true,
		MaxRetries:                 -1,
		DialerRetries:              1,
		DialTimeout:                dialTimeout,
		ReadTimeout:                ioTimeout,
		WriteTimeout:               ioTimeout,
		ClusterStateReloadInterval: clusterReload,

		MaintNotificationsConfig: noMaintenance(),
	}
}

// noMaintenance spares servers a handshake that only one managed service answers.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}
