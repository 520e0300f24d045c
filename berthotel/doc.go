// Package berthotel tells OpenTelemetry what berth does: metrics and spans, by
// the hooks of a berth.Client.
//
//	hooks, err := berthotel.Hooks() // the global providers, unless options say otherwise
//	client, err := berth.New(rdb, berth.Hook(hooks))
//
// Metrics, of this process, all with the attribute berth.semaphore.name:
//
//	berth.client.permits.in_use     permits held now
//	berth.client.requests.waiting   requests in line now
//	berth.client.wait.duration      s, from the call to its end; error.type when it failed
//	berth.client.hold.duration      s, from the grant to the end; error.type when it was not released
//	berth.client.leases.granted     leases taken
//	berth.client.leases.lost        leases lost; error.type: expired, untrusted, max_hold, evicted, …
//	berth.client.requests.refused   requests turned down; error.type: busy, queue_full, too_heavy, …
//
// What the whole fleet holds is not a process's to say: ask berth.Inspector.
//
// Spans: berth.acquire for each request, with berth.wait inside for the time in
// line; and berth.lease for the time in which the lease was held, a child of the
// caller's span, linked to the berth.acquire that brought it.
//
// Adopted leases produce no metrics, because they were acquired elsewhere.
package berthotel
