// Package berthtest provides berth clients for tests, without a Redis server: the
// store is embedded in the test's process. Tests can cause what goes wrong in
// production: a lost lease, a Redis that is unreachable or slow, lost messages.
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
// It works in a testing/synctest bubble, where a lease of a day expires at once, and
// outside of one, on the real clock. In a bubble, pass the bubble's own t to New:
// goroutines and connections belong to the bubble and end with it.
//
// The embedded store runs the same scripts as a real server, with the same guarantees
// about leases, queues and hand-offs. It is not a Redis Cluster, it never evicts keys,
// and its speed says nothing about a server's.
package berthtest
