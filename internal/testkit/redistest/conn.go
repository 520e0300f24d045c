package redistest

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// clientConn is the client's end of a link. It is a pipe that fails like a socket,
// because clients repeat commands after EPIPE, but not after io.ErrClosedPipe.
type clientConn struct {
	net.Conn
	server net.Conn    // for the addresses
	closed atomic.Bool // by the client itself
}

// LocalAddr implements net.Conn. It returns the address of the connection to the server,
// because a pipe has none.
func (c *clientConn) LocalAddr() net.Addr { return c.server.LocalAddr() }

// RemoteAddr implements net.Conn as LocalAddr does.
func (c *clientConn) RemoteAddr() net.Addr { return c.server.RemoteAddr() }

// Close implements net.Conn. Reads and writes fail with net.ErrClosed from then on.
func (c *clientConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// Read implements net.Conn. It fails with net.ErrClosed once c is closed.
func (c *clientConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.asSocket("read", err)
}

// Write implements net.Conn. It fails with net.ErrClosed once c is closed, and with
// EPIPE once the link is cut.
func (c *clientConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.asSocket("write", err)
}

// SetDeadline implements net.Conn. It does nothing once the link is cut.
func (c *clientConn) SetDeadline(t time.Time) error {
	return c.settable(c.Conn.SetDeadline(t))
}

// SetReadDeadline implements net.Conn as SetDeadline does.
func (c *clientConn) SetReadDeadline(t time.Time) error {
	return c.settable(c.Conn.SetReadDeadline(t))
}

// SetWriteDeadline implements net.Conn as SetDeadline does.
func (c *clientConn) SetWriteDeadline(t time.Time) error {
	return c.settable(c.Conn.SetWriteDeadline(t))
}

func (c *clientConn) asSocket(op string, err error) error {
	switch {
	case !errors.Is(err, io.ErrClosedPipe):
		return err
	case c.closed.Load():
		return &net.OpError{Op: op, Net: "pipe", Err: net.ErrClosed}
	}
	return &net.OpError{Op: op, Net: "pipe", Err: syscall.EPIPE}
}

// settable hides the error with which a pipe refuses deadlines once its other end is closed.
func (c *clientConn) settable(err error) error {
	if errors.Is(err, io.ErrClosedPipe) && !c.closed.Load() {
		return nil
	}
	return err
}
