// Command bench compares berth with its peers and with lower bounds, in one interleaved
// run; docs/benchmarks.md says how to read it.
//
//	go run ./bench --list
//	go run ./bench --html bench.html
//	go run ./bench --check bench/expectations.json
package main

import (
	"os"

	"github.com/berth-go/berth/bench/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
