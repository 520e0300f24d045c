//go:build unix && !linux

package postgres

import "syscall"

// dieWithParent has nothing to offer here: a server outlives a killed process.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
