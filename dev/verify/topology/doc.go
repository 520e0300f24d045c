// Package topology tests the promises of docs/guarantees.md on the kinds of Redis that
// people run: single servers by socket, TCP and TLS, Sentinel, and a cluster. Every
// test starts its servers, lets some clients share a semaphore, strikes with a fault,
// and judges by what the clients believed. It logs how long each outage lasted:
//
//	go test -v ./topology                              each fault once
//	BERTH_TOPOLOGY_ROUNDS=10 go test -v -timeout 1h ./topology
//
// docs/topologies.md has the numbers.
package topology
