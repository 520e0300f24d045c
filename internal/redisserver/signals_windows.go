package redisserver

import "syscall"

// Windows has no such signals, and no redis-server to send them to: sending one
// fails. The package compiles there for the sake of its embedded store.
const sigStop, sigCont = syscall.Signal(-1), syscall.Signal(-1)
