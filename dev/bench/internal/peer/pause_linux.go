package peer

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// exactPause returns a function that waits with a timer of the kernel. In a process that
// is otherwise idle Go's own timers are late by up to a millisecond, because its poller
// counts in milliseconds. With them, a contestant that sends fewer messages would hold its
// permits for longer.
func exactPause() (pause func(time.Duration) error, stop func() error, err error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, nil, os.NewSyscallError("timerfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "timerfd")
	var expired [8]byte
	return func(d time.Duration) error {
		if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}, nil); err != nil {
			return os.NewSyscallError("timerfd_settime", err)
		}
		_, err := file.Read(expired[:])
		return err
	}, file.Close, nil
}
