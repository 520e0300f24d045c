//go:build !linux

// Package child has what the processes that a run starts have in common.
package child

import "syscall"

// Group keeps Ctrl-C from a child process.
func Group() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
