//go:build unix

package redisserver

import "syscall"

const sigStop, sigCont = syscall.SIGSTOP, syscall.SIGCONT
