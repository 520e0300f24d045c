// Package berthtest gives tests of programs that use berth a client, without a
// Redis server: the store is embedded in the test's process. What can go wrong
// in production can be made to happen: a lost lease, a Redis that is away or
// slow, messages that do not arrive.
//
//	func TestWorker(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			store := berthtest.New(t)
//			sem, _ := store.Client().Semaphore("jobs", 1)
//			lease, _ := sem.Acquire(t.Context())
//			store.Lose(lease)
//			<-lease.Context().Done() // what does the worker do now?
//		})
//	}
//
// It works in a testing/synctest bubble, where leases of a day expire in no
// time, and outside of one, on the real clock. In a bubble give New the bubble's
// own t: goroutines and connections belong to the bubble and end with it.
//
// The embedded store runs the same scripts as a real server and keeps its
// promises about leases, queues and hand-offs. It is no Redis Cluster, it evicts
// nothing, and it says nothing about speed.
package berthtest
