// Package berthprom tells Prometheus what is on Redis: how many permits of each semaphore
// are out, how many requests wait and for how long, what operators have set, and how the
// server does.
//
//	metrics, err := berthprom.New(client, berthprom.Options{})
//	registry.MustRegister(metrics)
//	defer metrics.Close()
//
// One process of the fleet is enough; where several do it, read with max and not with sum.
// What each process does (how long it waits and holds, what it is refused) is berthotel's to
// say. The directory monitoring has rules, alerts and a dashboard for both.
//
// A scrape shows the last sample of a berthwatch.Sampler, so Redis is asked as often as that
// asks, however many scrape. It waits only as long as there is no sample of all names yet,
// and after a minute without a scrape: a second at most.
//
// For two Redis servers in one registry use prometheus.WrapRegistererWith and a label.
package berthprom
