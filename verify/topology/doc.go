// Package topology shows what docs/guarantees.md promises on the kinds of Redis
// that people run: single servers by socket, TCP and TLS, sentinels, a cluster.
// Every test starts its servers, has some clients share a semaphore, strikes,
// and judges by what the clients believed. What an outage cost is logged:
//
//	go test -v ./topology                              each fault once
//	BERTH_TOPOLOGY_ROUNDS=10 go test -v -timeout 1h ./topology
//
// docs/topologies.md has the numbers.
package topology
