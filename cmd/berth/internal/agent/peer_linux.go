package agent

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-go/berth/cmd/berth/internal/screen"
)

// peer is a process at the other end of a unix socket.
type peer struct{ who *unix.Ucred }

// peerOf returns the process at the other end of conn, if that can be known.
func peerOf(conn net.Conn) (p peer) {
	socket, ok := unwrap(conn).(*net.UnixConn)
	if !ok {
		return p
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return p
	}
	_ = raw.Control(func(fd uintptr) { p.who, _ = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return p
}

// program is the name of its program; "" if it is not known, or not fit to be shown.
func (p peer) program() string {
	if p.who == nil || p.who.Pid == 0 {
		return ""
	}
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.who.Pid))
	name := strings.TrimSpace(string(comm))
	if screen.Clean(name) != name {
		return ""
	}
	return name
}

// String is its number and its user, for a label. A process of another container has no number
// here.
func (p peer) String() string {
	switch {
	case p.who == nil:
		return ""
	case p.who.Pid == 0:
		return fmt.Sprintf(" uid=%d", p.who.Uid)
	}
	return fmt.Sprintf(" pid=%d uid=%d", p.who.Pid, p.who.Uid)
}
