// Command bench compares berth with its peers and with lower bounds, in one interleaved
// run; README.md beside this says how to read it.
//
//	go run ./dev/bench --list
//	go run ./dev/bench --out bench.txt
//	go run ./dev/bench --check dev/bench/expectations.json
package main

import (
	"os"

	"github.com/berth-go/berth/dev/bench/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
