// Command worker is a client process of a storm. It is a program of its own so that
// a planted bug can be built into it; see package worker.
package main

import (
	"os"

	"github.com/berth-go/berth/verify/worker"
)

func main() { os.Exit(worker.Main()) }
