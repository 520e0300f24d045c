// Package berth is a distributed counting semaphore on Redis: it limits how many
// calls to an API, queries on a database or jobs of a kind run at once, over all
// processes of a fleet.
//
// A semaphore has as many permits as its limit. Acquire takes a lease of one permit
// (or of several: Weight). If none is free it waits in a queue: first come, first
// served. berth renews the lease while the process lives; when the process crashes,
// the permit is free again within the TTL.
//
//	client, err := berth.New(rdb)
//	sem, err := client.Semaphore("github-api", 5)
//	lease, err := sem.Acquire(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//	call(lease.Context()) // ends when the lease is lost
//
// The guarantees and their assumptions are in docs/guarantees.md, and the protocol
// is described in the documentation of internal/protocol.
package berth
