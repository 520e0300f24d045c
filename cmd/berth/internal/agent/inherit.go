package agent

import (
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// firstInherited is the first descriptor that systemd hands over (sd_listen_fds(3)).
	firstInherited = 3
	// otherFiles is how many descriptors an agent needs beside its connections: for Redis, the
	// metrics and its logs.
	otherFiles = 100
)

// Inherits reports whether systemd has handed a listener to this process.
func Inherits() bool {
	pid, err := strconv.Atoi(os.Getenv("LISTEN_PID"))
	return err == nil && pid == os.Getpid()
}

// Inherited returns that listener. Others may have it, too: each new connection goes to one of them.
func Inherited() (net.Listener, error) {
	if n := os.Getenv("LISTEN_FDS"); n != "1" {
		return nil, fmt.Errorf("systemd hands over %s sockets: the agent serves one", n)
	}
	f := os.NewFile(firstInherited, "LISTEN_FDS")
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("the socket that systemd hands over: %w", err)
	}
	if socket, ok := l.(*net.UnixListener); ok {
		socket.SetUnlinkOnClose(false) // others may listen on it
	}
	return l, nil
}

// Fit returns how many of so many connections fit this process's limit of open files.
func Fit(connections int) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return connections
	}
	const others = otherFiles + standing
	files := uint64(limit.Cur) //nolint:unconvert // FreeBSD has an int64
	if files <= others {
		return 1
	}
	return int(min(uint64(connections), files-others))
}
