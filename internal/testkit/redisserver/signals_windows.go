package redisserver

import "syscall"

// Windows has no such signals, and no redis-server to send them to: sending one fails.
// The package compiles there because tests on the embedded store import it.
const sigStop, sigCont = syscall.Signal(-1), syscall.Signal(-1)
