package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// lastWords is how long to wait for the words of a server that has closed the connection.
	lastWords = 200 * time.Millisecond
	// mostWords bounds how many bytes of them are shown.
	mostWords = 250
	// patience is how long a TLS handshake may take before the server is asked whether it speaks
	// TLS at all.
	patience = 300 * time.Millisecond
)

const errNoTLS = refusal("the server does not speak TLS: write redis instead of rediss")

// dial opens a connection whose errors include what the server said when it refused the
// connection. A failed TLS handshake is a failed dial.
func (t *Target) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := (&net.Dialer{KeepAlive: keepAlive}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if t.tls == nil {
		return &candid{Conn: raw, plain: network != "unix"}, nil
	}
	config := t.dialed(ctx).tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	conn := tls.Client(raw, config)
	err = shake(ctx, conn, network, addr)
	if err == nil {
		return &candid{Conn: conn}, nil
	}
	_ = raw.Close()
	err = handshakeError(err)
	if _, final := err.(refusal); final { //nolint:errorlint // a refusal is never wrapped
		return nil, err
	}
	return nil, &net.OpError{Op: "dial", Net: network, Addr: raw.RemoteAddr(), Err: err}
}

// shake makes the handshake. A Redis without TLS takes the client's first words for the beginning
// of a line, and waits for the rest of it in silence; so a server that is silent is asked, on a
// connection of its own, whether it answers in plain text.
func shake(ctx context.Context, conn *tls.Conn, network, addr string) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	asking := time.AfterFunc(patience, func() {
		if first, _ := firstByte(ctx, network, addr, "PING\r\n"); first == '+' || first == '-' {
			end(errNoTLS)
		}
	})
	defer asking.Stop()
	err := conn.HandshakeContext(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errNoTLS) {
		return errNoTLS
	}
	return err
}

// firstByte says text to the server, on a connection of its own, and returns the first byte of what
// it answers, until ctx ends.
func firstByte(ctx context.Context, network, addr, text string) (byte, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := io.WriteString(conn, text); err != nil {
		return 0, err
	}
	var first [1]byte
	_, err = io.ReadFull(conn, first[:])
	return first[0], err
}

// handshakeError adds advice to err. Where only another URL can help it is a refusal.
func handshakeError(err error) error {
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return fmt.Errorf("%w: name your own authority by ca_file", err)
	case errors.As(err, new(x509.HostnameError)):
		return fmt.Errorf("%w: give the name in its certificate by server_name", err)
	case errors.Is(err, errNoTLS), errors.As(err, new(tls.RecordHeaderError)):
		return errNoTLS
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no TLS handshake within %v: if the server does not speak TLS, write redis instead of rediss", dialTimeout)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		// A Redis that is full says so in plain text only, before the handshake: over TLS nothing comes.
		return fmt.Errorf("the server hung up during the TLS handshake: it may have as many clients as maxclients allows, or not speak TLS (%w)", err)
	}
	if err, refused := certificateRefused(err); refused {
		return refusal(err.Error())
	}
	return err
}

// certificateRefused adds advice to err if the server requires a client certificate.
// crypto/tls has no type for the other side's alerts, only texts.
func certificateRefused(err error) (error, bool) {
	op, ok := errors.AsType[*net.OpError](err)
	if !ok || op.Op != "remote error" || !strings.Contains(op.Error(), "certificate") && !strings.Contains(op.Error(), "handshake failure") {
		return err, false
	}
	return fmt.Errorf("the server wants a client certificate that it knows: give cert_file and key_file (%w)", err), true
}

// refusal is what a server said before it closed the connection, or what is known of one
// that is not a Redis. To berth it is an answer, after which it does not retry.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// RedisError implements redis.Error.
func (refusal) RedisError() {}

// candid is a connection whose errors are in the server's words. A server that refuses a
// connection (protected mode, too many clients) says so at once and closes it; go-redis
// takes that for the answer to its first command, and returns the error of its second.
type candid struct {
	net.Conn

	plain bool // without TLS, over TCP

	mu    sync.Mutex
	reads int    // guarded by mu; that brought something
	text  string // guarded by mu; the beginning of what the last of them brought
	final error  // guarded by mu; what to say from now on
}

// Read implements net.Conn.
func (c *candid) Read(p []byte) (int, error) {
	if err := c.judge(nil, nil); err != nil {
		return 0, err // nothing more may come
	}
	n, err := c.Conn.Read(p)
	if err = c.judge(p[:n], err); err != nil {
		n = 0 // what cannot be understood is not to be read
	}
	return n, err
}

// Write implements net.Conn.
func (c *candid) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	silent := c.reads == 0
	c.mu.Unlock()
	if err != nil && silent { // what the server said may not have been read yet
		words := make([]byte, 1024)
		_ = c.SetReadDeadline(time.Now().Add(lastWords))
		m, readErr := c.Conn.Read(words)
		_ = c.judge(words[:m], readErr)
	}
	return n, c.judge(nil, err)
}

// judge looks at what the server has sent, and replaces the network's error by what that
// says.
func (c *candid) judge(text []byte, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(text) > 0 {
		c.reads++
		c.text = string(text[:min(len(text), 1024)])
	}
	line, _, _ := strings.Cut(c.text, "\r\n")
	alert, refused := certificateRefused(err)
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case c.final != nil:
	case c.reads == 1 && strings.IndexByte("-+:$*_#,(!=%~>|", c.text[0]) < 0:
		c.final = refusal(fmt.Sprintf("what answers there is not Redis: it begins with %q", line[:min(len(line), 40)]))
	case err == nil || isNet && timeout.Timeout():
		return err
	case c.reads == 1 && c.text[0] == '-':
		c.final = refusal(sentences(line[1:]))
	case c.reads == 0 && refused:
		c.final = refusal(alert.Error())
	case c.reads == 0 && c.plain:
		c.final = errors.New("the server hung up without a word: if it wants TLS, write rediss instead of redis")
	default:
		return err
	}
	return c.final
}

// sentences shortens a server's text to the sentences that fit.
func sentences(text string) string {
	if len(text) <= mostWords {
		return text
	}
	if i := strings.LastIndex(text[:mostWords], ". "); i > 0 {
		return text[:i+1]
	}
	return strings.ToValidUTF8(text[:mostWords], "") + "…"
}
