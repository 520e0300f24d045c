// Package wire watches the connections of a Redis client: it counts the commands that are
// sent, and cuts a connection at a chosen moment.
package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Cut says what happens to the next request of a client.
type Cut int32

// The ways to cut a connection.
const (
	None    Cut = iota
	Request     // the request and the connection are lost
	Reply       // the request is executed, but the connection is lost before the reply
)

// ErrCut is the error of a connection that was cut.
var ErrCut = errors.New("lab: the connection was cut")

// replyTimeout bounds the wait for a reply that the client will not see.
const replyTimeout = 20 * time.Second

// Tap watches the connections of one or more clients.
type Tap struct {
	commands atomic.Int64
	cut      atomic.Int32

	mu      sync.Mutex
	replies int    // guarded by mu: number of replies until onReply is called
	onReply func() // guarded by mu
}

// Commands returns the number of commands that were sent so far. It includes MULTI and
// EXEC, but neither subscriptions nor the commands inside scripts.
func (t *Tap) Commands() int64 { return t.commands.Load() }

// CutNext cuts the connection on which the next request is sent.
func (t *Tap) CutNext(how Cut) { t.cut.Store(int32(how)) }

// OnReply calls f when the n-th reply from now has arrived and before the client sees it:
// the server has executed the command, but the client does not know.
func (t *Tap) OnReply(n int, f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replies, t.onReply = n, f
}

func (t *Tap) reply() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.onReply == nil {
		return
	}
	if t.replies--; t.replies == 0 {
		t.onReply()
		t.onReply = nil
	}
}

// Attach makes t watch rdb's commands, and every connection that it makes from now on.
func (t *Tap) Attach(rdb redis.UniversalClient) {
	rdb.AddHook(hook{t, true})
	if cluster, ok := rdb.(*redis.ClusterClient); ok { // its nodes' clients dial, which only it uses
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(hook{t, false}) })
	}
}

// hook is the redis.Hook of a Tap.
type hook struct {
	tap   *Tap
	count bool
}

// DialHook implements redis.Hook.
func (h hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &conn{c, h.tap}, nil
	}
}

// ProcessHook implements redis.Hook.
func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.sent(1)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.sent(len(cmds))
		return next(ctx, cmds)
	}
}

func (h hook) sent(n int) {
	if h.count {
		h.tap.commands.Add(int64(n))
	}
}

// conn is one connection of a client.
type conn struct {
	net.Conn
	tap *Tap
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	how := None
	if !handshake(p) {
		how = Cut(c.tap.cut.Swap(int32(None)))
	}
	if how == Request {
		_ = c.Close()
		return 0, ErrCut
	}
	n, err := c.Conn.Write(p)
	if how == Reply && err == nil {
		c.awaitExecution()
		_ = c.Close()
	}
	return n, err
}

// awaitExecution returns when everything that was sent has been executed. The first bytes
// of a reply do not tell: a server may answer MULTI, find the connection closed, and never
// reach the EXEC. The answer to one more command does.
func (c *conn) awaitExecution() {
	const marker = "lab:all-done"
	_ = c.SetDeadline(time.Now().Add(replyTimeout))
	if _, err := fmt.Fprintf(c.Conn, "*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", len(marker), marker); err != nil {
		return
	}
	var seen []byte
	piece := make([]byte, 512)
	for !bytes.Contains(seen, []byte(marker)) {
		n, err := c.Conn.Read(piece)
		if err != nil {
			return
		}
		seen = append(seen, piece[:n]...)
	}
}

// handshake reports whether p is what go-redis itself sends on a new connection.
func handshake(p []byte) bool {
	fields := bytes.SplitN(p, []byte("\r\n"), 4)
	if len(fields) < 4 {
		return false
	}
	switch strings.ToLower(string(fields[2])) {
	case "hello", "auth", "client", "select":
		return true
	}
	return false
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.tap.reply()
	}
	return n, err
}
