//go:build !unix

package main

import (
	"fmt"
	"os"
	"runtime"
)

// unavailable is exit.Unavailable, whose package is for Unix alone.
const unavailable = 69

// main stands in for the command line, which needs signals, process groups and
// unix sockets.
func main() {
	fmt.Fprintf(os.Stderr, "berth: the command line runs on Linux, macOS and FreeBSD, not on %s: "+
		"on Windows, run it in WSL; Go programs can use the library as it is\n", runtime.GOOS)
	os.Exit(unavailable)
}
