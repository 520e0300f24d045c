// Package berth is a distributed counting semaphore on Redis: it limits how many
// calls to an API, queries on a database or jobs of a kind run at once, over all
// processes of a fleet.
//
// A limit has permits. Acquire takes a lease of one (or of several: Weight),
// waiting in line if there is none, first come, first served. Every permit is
// leased: berth renews the lease while the process lives, and when it crashes
// the permit comes back by itself within the TTL.
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
// What is promised, and on what assumptions, is in docs/guarantees.md; how it
// works, in the documentation of internal/protocol.
package berth
