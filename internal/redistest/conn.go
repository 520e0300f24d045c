package redistest

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// clientConn is the client's end of a link. It is a pipe that fails as a
// socket does: clients repeat commands after EPIPE, but not after
// io.ErrClosedPipe.
type clientConn struct {
	net.Conn
	server net.Conn    // for the addresses
	closed atomic.Bool // by the client itself
}

func (c *clientConn) LocalAddr() net.Addr  { return c.server.LocalAddr() }
func (c *clientConn) RemoteAddr() net.Addr { return c.server.RemoteAddr() }

func (c *clientConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

func (c *clientConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.asSocket("read", err)
}

func (c *clientConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.asSocket("write", err)
}

func (c *clientConn) SetDeadline(t time.Time) error {
	return c.settable(c.Conn.SetDeadline(t))
}

func (c *clientConn) SetReadDeadline(t time.Time) error {
	return c.settable(c.Conn.SetReadDeadline(t))
}

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

// settable hides that a pipe refuses deadlines once its other end has closed.
func (c *clientConn) settable(err error) error {
	if errors.Is(err, io.ErrClosedPipe) && !c.closed.Load() {
		return nil
	}
	return err
}
