package protocol

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// bound is the argument of the script that bounds when it may run. It notes when go-redis writes it,
// because no error tells whether that happened: what fails in a Limiter, in a hook or in the
// provider of credentials fails before, and what a hook makes of a time-out may have any type.
type bound struct {
	latest  int64 // server time in ms; 0: any
	written bool
	text    [20]byte
}

// MarshalBinary implements encoding.BinaryMarshaler for go-redis.
func (b *bound) MarshalBinary() ([]byte, error) {
	b.written = true
	return strconv.AppendInt(b.text[:0], b.latest, 10), nil
}

// String is for hooks that print commands.
func (b *bound) String() string { return strconv.FormatInt(b.latest, 10) }

// sentMark is an argument that is called when its command is written: then the command has its
// connection.
type sentMark func()

// MarshalBinary implements encoding.BinaryMarshaler.
func (m sentMark) MarshalBinary() ([]byte, error) {
	m()
	return []byte(m.String()), nil
}

// String implements fmt.Stringer, for hooks that print commands.
func (sentMark) String() string { return "berth" }

// written reports whether the call of a script with args was given to a connection, or may have
// been.
func written(args []any) bool {
	for _, arg := range args {
		if b, ok := arg.(*bound); ok {
			return b.written
		}
	}
	return true
}

// classifyCall turns the error of a call of a script with args into a Failure.
func classifyCall(err error, args []any) *Failure {
	f := classify(err)
	if f.Detail == nil && !written(args) && byClient(err) {
		f.Kind, f.ByClient = ErrRefused, true
	}
	return f
}

// byClient reports whether err, of a request that was not sent, is of the client itself: not of the
// network, nor of a context, nor an answer. A certificate that cannot be verified is for somebody to
// mend, too, though it comes as an error of the network.
func byClient(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	for _, other := range []error{
		context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		redis.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	_, network := errors.AsType[net.Error](err)
	_, system := errors.AsType[syscall.Errno](err)
	_, answer := errors.AsType[redis.Error](err)
	return !network && !system && !answer
}
