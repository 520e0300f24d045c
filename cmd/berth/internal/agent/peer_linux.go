package agent

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// peer returns the process at the other end of a unix socket: the program's name, and its
// number and user for a label. A process of another container has no number here.
func peer(conn net.Conn) (program, process string) {
	socket, ok := unwrap(conn).(*net.UnixConn)
	if !ok {
		return "", ""
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return "", ""
	}
	var who *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil || failed != nil {
		return "", ""
	}
	if who.Pid == 0 {
		return "", fmt.Sprintf(" uid=%d", who.Uid)
	}
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", who.Pid))
	return strings.TrimSpace(string(comm)), fmt.Sprintf(" pid=%d uid=%d", who.Pid, who.Uid)
}
