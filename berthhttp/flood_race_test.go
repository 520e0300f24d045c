//go:build race

package berthhttp_test

// floodKeys are fewer than without the race detector, which keeps about a megabyte for each goroutine:
// with 10,000 requests at once one run took 21 GB, and the machine stood still until it was killed.
const floodKeys = 1000
