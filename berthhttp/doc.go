// Package berthhttp limits how many HTTP requests run at once, over all processes
// of a fleet, by berth's semaphores.
//
// For clients, Transport is an http.RoundTripper that sends at most N requests at
// once to each host, or for each value of a key function. A request waits in the
// queue until its context ends, and holds its permit until the response body is
// closed or read to its end:
//
//	transport, err := berthhttp.NewTransport(client, "api", 5)
//	api := &http.Client{Transport: transport}
//	resp, err := api.Get("https://api.example.com/things")
//
// For servers, Handler limits how many requests are served at once, over all
// replicas and for each tenant, user or route. A request waits up to a bound, and is
// then refused with 429 Too Many Requests and a Retry-After header:
//
//	limited, err := berthhttp.NewHandler(client, "reports", 20, reports,
//		berthhttp.Key(func(r *http.Request) string { return r.Header.Get("X-Tenant") }))
//	http.Handle("/reports/", limited)
//
// And adds more limits, such as one for all tenants beside those for each: narrow first, wide last.
//
// The context of a request that holds a permit ends when the lease is lost;
// berth.FromContext returns the lease. The lease is lost at the latest at MaxHold: by
// default after a minute for a Handler, and after 15 minutes for a Transport. While
// Redis cannot be reached, requests are refused, or pass if FailOpen is set; both are
// logged.
//
// Keys may come from untrusted clients: every string becomes a valid name, different
// strings become different names, nothing is stored for a key that is not in use, and
// MaxWaiting bounds how many requests of a Handler wait at once. docs/http.md says
// what else a public server needs.
package berthhttp
