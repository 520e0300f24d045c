package agent

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http/httputil"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// mostBody is how long a request may be.
const mostBody = 64 << 10

// upload is a request's body, before it is read.
type upload struct {
	length  int64
	chunked bool
	buf     *bufio.Reader
	waits   bool // the client waits to be told that it may send the body
}

// buffered is what has come of it.
func (u *upload) buffered() []byte {
	b, _ := u.buf.Peek(u.buf.Buffered())
	return b
}

// read reads the request, and leaves input at what comes after it: the rest of a chunked body
// whose first line it is, or whatever the client writes after a body that is whole.
func (h *hold) read(body *upload) *refusal {
	if body.length > mostBody {
		return refusedSize
	}
	if body.waits {
		h.send([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	}
	if body.chunked || int64(body.buf.Buffered()) < body.length { // most come with their head
		h.conn.SetReadDeadline(time.Now().Add(readTimeout))
		defer h.conn.SetReadDeadline(time.Time{})
	}
	var text []byte
	var err error
	if body.chunked {
		rest := io.MultiReader(bytes.NewReader(body.buffered()), punctual{h})
		line := bufio.NewReader(httputil.NewChunkedReader(rest))
		h.input = line
		var whole bool
		if text, whole, err = readLine(line); whole {
			h.input = punctual{h} // it is like a body with a length
		}
	} else {
		text = make([]byte, body.length)
		_, err = io.ReadFull(body.buf, text)
		h.input = punctual{h} // what was sent together with the body counts for nothing yet
	}
	switch {
	case errors.Is(err, errTooLong):
		return refusedSize
	case err != nil:
		return refusedLate
	}
	var refused *refusal
	h.request, refused = parse(text)
	return refused
}

var errTooLong = errors.New("too long")

// readLine reads to the end of a line, or of the input: then it is the whole.
func readLine(r *bufio.Reader) (line []byte, whole bool, err error) {
	for len(line) <= mostBody {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil, errors.Is(err, io.EOF):
			return line, err != nil, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
	return nil, false, errTooLong
}

// mostLine is how long a line may be that a client sends to a hold; the rest of a longer one is not
// looked at.
const mostLine = 1 << 10

// listen reads until the connection ends. Whatever comes is a sign of life, and a line can settle what
// the permit has cost.
func (h *hold) listen() {
	var some [64]byte
	var line []byte // what has come of it
	for {
		n, err := h.input.Read(some[:])
		if n > 0 && h.held.Load() {
			h.expectBeat()
		}
		for _, b := range some[:n] {
			switch {
			case b == '\n':
				h.settleLine(line)
				line = line[:0]
			case len(line) < mostLine:
				line = append(line, b)
			}
		}
		if err != nil {
			h.settleLine(line) // before the hold ends
			h.cancel(ended(err))
			return
		}
	}
}

// ended is why reading has ended.
func ended(err error) error {
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, io.EOF):
		return errDone // or gone: it may not even be there to read the answer
	case ok && timeout.Timeout():
		return errSilent
	}
	return errGone
}

// expectBeat gives the client another beat_ms. Once a permit is held, a deadline is set by each
// beat and by the grant: whichever comes last is right.
func (h *hold) expectBeat() {
	if h.beat > 0 {
		h.conn.SetReadDeadline(time.Now().Add(h.beat))
	}
}

// punctual reads what a client sends. What was written before the deadline counts, even if a
// busy machine comes to read it after that.
type punctual struct{ *hold }

// Read implements io.Reader.
func (p punctual) Read(b []byte) (int, error) {
	for {
		n, err := p.conn.Read(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) || !p.held.Load() || !unread(p.conn) {
			return n, err
		}
		p.expectBeat() // the last one was there in time
	}
}

// unread reports whether there is something to read, or the end.
func unread(conn net.Conn) (yes bool) {
	socket, ok := unwrap(conn).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK)
		yes = err == nil
	})
	return yes
}
