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

// pid is its number; 0: it is not known. A process of another container has none here.
func (p peer) pid() int {
	if p.who == nil {
		return 0
	}
	return int(p.who.Pid)
}

// user is its user as an owner says it; "": that is not known.
func (p peer) user() string {
	if p.who == nil {
		return ""
	}
	return fmt.Sprintf(";uid=%d", p.who.Uid)
}

// program is the name of the program of the process pid, which p may have said to be itself; "" if it
// is not known, or not fit to be shown.
func (p peer) program(pid int) string {
	if p.pid() == 0 { // the numbers that it knows are not those of here
		return ""
	}
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	name := strings.TrimSpace(string(comm))
	if screen.Clean(name) != name {
		return ""
	}
	return name
}
