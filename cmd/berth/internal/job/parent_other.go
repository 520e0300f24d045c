//go:build !linux

package job

import "syscall"

func endWithParent(*syscall.SysProcAttr) {}
