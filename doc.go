// Package berth is a distributed counting semaphore on Redis. It limits how many calls to an API,
// queries on a database or jobs of a kind run at once, over all processes of a fleet, and how many
// begin in a minute ([Rate]).
//
//	client, err := berth.New(rdb)                 // once in each process
//	api, err := client.Semaphore("github-api", 5) // 5 permits, in the whole fleet
//	err = api.Do(ctx, func(ctx context.Context) error {
//		return call(ctx) // this ctx also ends if the lease is lost
//	})
//
// [Semaphore.Do] waits in a queue until ctx ends, first come, first served. It runs the function
// while it holds a lease of one permit, or of several ([Weight]), and releases it.
// [Semaphore.Acquire] and [Lease.Release] do so in two steps, [Semaphore.TryAcquire] does not wait,
// [AcquireAll] takes leases of several semaphores, and [Tenant] keeps customers from pushing each
// other out of the queue. berth renews leases while the process lives. When it crashes, its permits
// are free again within the [TTL].
//
// Errors are for errors.Is, from [ErrBusy] on, and say what to do. docs/guarantees.md has what holds
// when processes, Redis or the network fail. Beside this package, berthpool lends leases from
// memory, berthhttp limits HTTP requests, berthgrpc gRPC calls, berthsql the queries of
// database/sql, berthadmin is for operators, berthotel and berthprom report metrics, and berthtest is
// for tests.
package berth
