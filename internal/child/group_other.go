//go:build !unix

package child

import "syscall"

func ownGroup(*syscall.SysProcAttr) {}
