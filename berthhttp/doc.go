// Package berthhttp limits HTTP by berth's semaphores: how many calls run at
// once, over all processes of a fleet.
//
// On the calling side, Transport is an http.RoundTripper that sends at most N
// requests at once to each host (or to what a key function says). A request
// waits in line within its own context, and holds its permit until the response
// body is closed or read to its end:
//
//	transport, err := berthhttp.NewTransport(client, "api", 5)
//	api := &http.Client{Transport: transport}
//	resp, err := api.Get("https://api.example.com/things")
//
// On the serving side, Handler limits what is worked on at once, over all
// replicas and per tenant, user or route. A request waits up to a bound and is
// then refused with 429 Too Many Requests and a Retry-After:
//
//	limited, err := berthhttp.NewHandler(client, "reports", 20, reports,
//		berthhttp.Key(func(r *http.Request) string { return r.Header.Get("X-Tenant") }))
//	http.Handle("/reports/", limited)
//
// A request that holds a permit has a context that ends when the lease is lost;
// berth.FromContext returns the lease. A request loses it at MaxHold: a Handler's
// after a minute, a Transport's after 15. While Redis cannot be reached, requests
// are refused unless FailOpen says otherwise, and either is logged.
//
// Keys may come from strangers: every string becomes a valid name, no two become
// the same, nothing is kept for a key that is not in use, and MaxWaiting bounds
// how many requests of a Handler wait at once. docs/http.md tells what else a
// server that is open to strangers needs.
package berthhttp
