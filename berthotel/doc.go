// Package berthotel reports metrics and spans of a berth.Client to OpenTelemetry, by
// its hooks.
//
//	hooks, err := berthotel.Hooks() // with the global providers, unless options set others
//	client, err := berth.New(rdb, berth.Hook(hooks))
//
// The metrics are of this process, and all have the attribute berth.semaphore.name:
//
//	berth.client.permits.in_use     permits held now
//	berth.client.requests.waiting   requests in the queue now
//	berth.client.wait.duration      s, from the call to its end; error.type when it failed
//	berth.client.hold.duration      s, from the grant to the end; error.type when it was not released
//	berth.client.leases.granted     leases taken
//	berth.client.leases.lost        leases lost; error.type: expired, untrusted, max_hold, evicted, …
//	berth.client.requests.refused   requests refused; error.type: busy, queue_full, too_heavy, …
//
// For the numbers of the whole fleet use berthprom or berthadmin.Inspector.
//
// The spans are berth.acquire for each request, with a child berth.wait for its time in
// the queue; and berth.lease for the time in which the lease was held, a child of the
// caller's span that is linked to berth.acquire.
//
// Adopted leases produce no metrics, because they were acquired elsewhere.
package berthotel
