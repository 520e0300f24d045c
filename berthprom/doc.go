// Package berthprom exports the semaphores of a Redis to Prometheus: how many permits are
// held, how many requests wait and for how long, what operators have set, and the state of
// the server.
//
//	in, err := berthadmin.New(rdb, berthadmin.Options{})
//	metrics, err := berthprom.New(in, berthprom.Options{})
//	registry.MustRegister(metrics)
//	defer metrics.Close()
//
// One process of the fleet is enough; if several export, aggregate with max and not with
// sum. For each process's own waits, holds and refusals there is berthotel. The directory
// monitoring has rules, alerts and a dashboard for both.
//
// A scrape shows the last sample of a berthwatch.Sampler, so the load on Redis does not
// depend on the number of scrapers. Only the first scrape, and the first after a minute
// without one, wait for a sample, for a second at most.
//
// For two Redis servers in one registry use prometheus.WrapRegistererWith and a label.
package berthprom
