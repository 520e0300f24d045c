package result

// Targets are what berth sets out to be. Every one has its baseline in the same
// run.
func Targets() []Bound {
	return []Bound{
		least("hot", "256", "pairs/s", "setdel-auto", 0.7),
		least("hot", "256", "pairs/s", "redislock", 2.5),
		least("hot", "256", "pairs/s", "redsync", 2.5),
		least("hot", "256", "pairs/s", "rueidislock", 2.5),
		least("spread", "256", "pairs/s", "setdel-auto", 0.3),
		least("spread", "256", "pairs/s", "redislock", 1.2),
		least("spread", "256", "pairs/s", "redsync", 1.2),
		least("spread", "256", "pairs/s", "rueidislock", 1.2),
		most("cpu", "spread", "cpu-µs", "trivial-auto", 3.5),
		most("cpu", "batched", "cpu-µs", "trivial-auto", 1.5),
		least("contended", "5", "acquires/s", "tokens", 0.92),
		bound("contended", "5", "commands", "", nil, new(2.1)),
		bound("contended", "5", "jain", "", new(0.99), nil),
		bound("contended", "5", "overtaken-%", "", nil, new(0.0)),
		bound("contended", "5", "most-held", "", nil, new(5.0)),
		most("handoff", "3ms", "p50-µs", "publish", 1.45),
		most("handoff", "3ms", "p99-µs", "publish", 2),
		faster("handoff", "3ms", "p50-µs", "redislock", 20),
		faster("handoff", "3ms", "p50-µs", "redsync", 20),
		faster("handoff", "3ms", "p50-µs", "npm", 20),
		against("holders", "100,000", "10", "server-µs", 1.5),
		against("waiters", "100,000", "10", "server-µs", 1.5),
		bound("memory", "100,000", "client-bytes", "", nil, new(2048.0)),
		bound("memory", "100,000", "heap-bytes", "", nil, new(2048.0)),
		bound("memory", "100,000", "server-bytes", "", nil, new(600.0)),
		bound("memory", "100,000", "core-%", "", nil, new(15.0)),
		bound("renewals", "one-semaphore", "core-%", "", nil, new(1.0)),
		bound("renewals", "a-semaphore-each", "core-%", "", nil, new(1.0)),
		bound("pool", "pool", "pairs/s", "", new(1e6), nil),
		bound("pool", "pool", "most-held", "", nil, new(8.0)),
		bound("pool", "pool", "elsewhere", "", nil, new(1.0)),
	}
}

func bound(scenario, caze, metric, peer string, least, most *float64) Bound {
	return Bound{Scenario: scenario, Case: caze, Metric: metric, Against: peer, AtLeast: least, AtMost: most}
}

// most: berth's figure is at most so many times the other's.
func most(scenario, caze, metric, peer string, v float64) Bound {
	return bound(scenario, caze, metric, peer, nil, &v)
}

// least: berth's figure is at least so many times the other's.
func least(scenario, caze, metric, peer string, v float64) Bound {
	return bound(scenario, caze, metric, peer, &v, nil)
}

// faster: the other's figure is at least so many times berth's.
func faster(scenario, caze, metric, peer string, v float64) Bound {
	b := least(scenario, caze, metric, peer, v)
	b.Invert = true
	return b
}

// against: berth's figure is at most so many times that of another case.
func against(scenario, caze, base, metric string, v float64) Bound {
	b := most(scenario, caze, metric, "berth", v)
	b.Base = base
	return b
}
