// Package berth is a distributed semaphore and rate limiter on Redis: at most so many calls at once,
// and so many per minute, over all processes and machines that use the name.
//
//	client, err := berth.New(rdb)                                       // one in each process
//	api, err := client.Semaphore("api", 5, berth.Rate(60, time.Minute)) // 5 at once, 60 per minute
//	err = api.Do(ctx, func(ctx context.Context) error {
//		return call(ctx) // this ctx also ends if the permit is lost
//	}, berth.Tenant(customer), berth.Cost(2))
//
// [Semaphore.Do] waits in a queue, first come, first served, until ctx ends, and runs the function
// while it holds a [Lease], which berth renews and then releases. [Semaphore.Acquire] and
// [Lease.Release] do so in two steps, [Semaphore.TryAcquire] does not wait, [AcquireAll] takes leases
// of several semaphores, and [Lease.Detach] hands one to another process. If a holder crashes, its
// permits are free again within the [TTL]. docs/guarantees.md has what holds when something fails.
//
// # Options
//
// For all leases of a [Semaphore], or for one request:
//
//   - how long a lease lasts: [TTL] without renewal, [MaxHold] in all; [WithoutRenewal]
//   - what it takes: [Weight] of the limit, [Cost] of the [Rate]
//   - who comes first: [Tenant]; [HeadStart] for one request; [Level] in AcquireAll
//   - how long to wait: the context, or [QueueLimit]; [OnQueued] gets the place
//   - [Label] for operators, [MinReplicas] before a failover
//
// [Prefix], [Logger] and [Hook] are for [New].
//
// # Errors
//
// Test them by errors.Is, from [ErrBusy] on. For errors.As, [*BusyError], [*TooHeavyError] and
// [*WaitError] have the semaphore's [Status], and [*LostError], the cause of a lease's context, has
// the reason of a loss.
//
// # Other packages
//
// berthhttp, berthgrpc and berthsql limit HTTP requests, gRPC calls and queries of database/sql.
// berthpool lends leases from memory. berthadmin, berthwatch and berthweb are for operators,
// berthotel and berthprom report metrics, and berthtest is for tests.
package berth
