package agent

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// writeTimeout is how long a client may leave no room for a line, where that cannot be seen at
// once.
const writeTimeout = time.Second

// write writes b if there is room for it, and fails otherwise: a socket has room for hundreds of
// lines, so a client that left none does not read. It does not judge by time, which a busy machine
// lacks, and a deadline would cost each line a timer.
func write(conn net.Conn, b []byte) error {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		_, err := conn.Write(b)
		return err
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		n, failed = unix.Write(int(fd), b)
		return !errors.Is(failed, unix.EINTR) // and otherwise again; no room is no reason to wait
	})
	if err == nil && failed == nil && n < len(b) {
		return io.ErrShortWrite
	}
	return errors.Join(err, failed)
}
