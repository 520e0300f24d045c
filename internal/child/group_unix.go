//go:build unix && !linux

package child

import "syscall"

func ownGroup(attr *syscall.SysProcAttr) { attr.Setpgid = true }
