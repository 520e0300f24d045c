//go:build unix

// Command berth limits how many processes do something at once, on one machine
// or on many: distributed counting semaphores on Redis.
//
// See "berth help", or run "berth demo".
package main

import (
	"os"
	"runtime"

	"github.com/berth-go/berth/cmd/berth/internal/cli"
)

func init() {
	// Everything that starts processes runs on the main goroutine. On the main
	// thread, which lives as long as the process, the system can tie the life of
	// a command to it.
	runtime.LockOSThread()
}

func main() { os.Exit(cli.Main(os.Args[1:])) }
