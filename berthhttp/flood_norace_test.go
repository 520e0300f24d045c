//go:build !race

package berthhttp_test

const floodKeys = 10000
