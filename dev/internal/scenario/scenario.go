// Package scenario has the workloads of bench and lab: who wants how many permits, for how long,
// and in which trouble. Bench measures what they cost, and lab what clients believe meanwhile.
package scenario

import (
	"fmt"
	"time"
)

// Scenario is one workload. What it does not need, or its user chooses, is zero.
type Scenario struct {
	Key   string // for the command line and for machines
	Title string
	About string // what is done and measured, for people who read the results

	Limit   int           // permits
	Clients int           // each with connections of its own
	Workers int           // goroutines, spread evenly over the clients
	Each    bool          // every worker has a semaphore of its own
	Hold    time.Duration // for which each permit is held, about
	Gap     time.Duration // from one arrival to the next
	Slow    time.Duration // by which the clock of every other client is slow
	TTL     time.Duration // after which a permit that is not renewed is lost; 0: the default
	Rate    int           // grants a second
}

const (
	// room is a limit that the workers do not reach.
	room = 1000
	// chapterTTL is the chapter's default, for scenarios in which it should not matter.
	chapterTTL = 10 * time.Second
)

// Contended has many workers in so many clients, and few permits, which are held for so long.
func Contended(clients int, hold time.Duration) Scenario {
	s := Scenario{Key: "contended", Title: "Contention", Limit: 5, Clients: clients, Workers: 64, Hold: hold, TTL: chapterTTL}
	s.About = fmt.Sprintf("%d goroutines in %d clients, each with connections of its own, want %d permits, for about %v each, again "+
		"and again. No algorithm can give more than %.0f permits per second.", s.Workers, clients, s.Limit, hold, float64(s.Limit)/hold.Seconds())
	return s
}

// Clocks makes the clocks of half of the clients slow.
func Clocks(key, words string, slow time.Duration) Scenario {
	return Scenario{
		Key: key, Title: "Clocks " + words + " apart", Limit: 3, Clients: 8, Workers: 8, Hold: 15 * time.Millisecond, Slow: slow, TTL: chapterTTL,
		About: fmt.Sprintf("8 clients want 3 permits, for about 15 ms each, again and again. "+
			"The clocks of 4 of them are %s slow. Permits time out after 10 s.", words),
	}
}

// Holders is measured by both. Its limit is that beside the holders.
var Holders = Scenario{
	Key: "holders", Title: "Cost as holders grow", Limit: 1, Clients: 1, Workers: 1, TTL: time.Hour,
	About: "One client acquires and releases, again and again, while more and more others hold permits, which last for an hour. " +
		"There is always room, so this is what a permit costs when nobody is in the way.",
}

// The scenarios of bench.
var (
	Pair = Scenario{
		Key: "pair", Title: "One goroutine acquires and releases", Limit: 5, Clients: 1, Workers: 1,
		About: "One goroutine, one semaphore with room, nobody else: how long an acquire and its release take.",
	}
	Hot = Scenario{
		Key: "hot", Title: "Many goroutines, one semaphore with room for all", Limit: room, Clients: 1,
		About: "Pairs per second of one process. Locks, which have room for one, and SET+DEL: each goroutine has a name of its own.",
	}
	Spread = Scenario{
		Key: "spread", Title: "Many goroutines, a semaphore each", Limit: room, Clients: 1, Each: true,
		About: "Pairs per second of one process whose goroutines have nothing to do with each other.",
	}
	CPU = Scenario{
		Key: "cpu", Title: "What a pair costs the server", Limit: room, Clients: 1,
		About: "alone: one goroutine. spread: 256 goroutines on as many semaphores, so that requests come together but each is for itself. " +
			"batched: 256 goroutines on one semaphore. \"cpu µs\" is the CPU time of the server's main thread, with its share of reading and writing; " +
			"\"server µs\" the time in commands by INFO commandstats, in which the server may have had to wait for a CPU.",
	}
	Handoff = Scenario{
		Key: "handoff", Title: "A permit changes hands", Limit: 1, Clients: 2, Workers: 2, Gap: 3 * time.Millisecond,
		About: "One holder and one waiter in different clients: from the call of release to the return of the waiter's acquire. 3 ms after the " +
			"waiter came, so that the round trip comes alone; for those that poll up to one poll later, at random, so that the release does not " +
			"fall in with it.",
	}
	Waiters = Scenario{
		Key: "waiters", Title: "Cost against waiters", Limit: 1,
		About: "So many wait in line for one permit, in processes of their own; whoever gets it gives it back at once and goes to the end of the " +
			"line. Time in commands by INFO commandstats, for each turn of the permit: a release, a grant and a new place in line. " +
			"The waiters' heartbeats are in it.",
	}
	Memory = Scenario{
		Key: "memory", Title: "Waiters that only wait", Limit: 1,
		About: "So many goroutines, in processes of 10,000, wait for a permit that nobody gives back. \"client bytes\" is what one of them costs its " +
			"process after a garbage collection, the stack of the goroutine that waits included; \"heap bytes\" is without it. \"server bytes\" is the " +
			"growth of used_memory. \"calls/s\" and \"core %\" are what all of them together cost the server while nothing happens, by heartbeats.",
	}
	Renewals = Scenario{
		Key: "renewals", Title: "Leases that one process keeps",
		About: "One process holds 10,000 leases and renews each every third of its TTL. \"core %\" is the share of a core that the server's main " +
			"thread spends on it, less what it spends on nothing, as for the default TTL of 30 s: measured at another TTL it is multiplied by TTL / 30 s.",
	}
	Pool = Scenario{
		Key: "pool", Title: "Permits lent in memory", Limit: 8, Clients: 1, Workers: 16, Hold: time.Millisecond,
		About: "Two clients share 8 permits: of one 16 goroutines borrow from a pool of 8 and give back at once, of the other 4 goroutines hold " +
			"each permit for 1 ms, from a pool of their own. \"pairs/s\" is the first client alone. Then for longer, and with all holders counted " +
			"(\"most held\"), somebody without a pool waits elsewhere, again and again: \"elsewhere\" is the longest wait in renewal intervals, a " +
			"third of the TTL. \"other ms\" is the longest wait of the second client.",
	}
	Rated = Scenario{
		Key: "rate", Title: "So many a second", Clients: 8, Workers: 64, Rate: 100,
		About: "64 goroutines in 8 clients want 100 grants a second, beginning with an unused rate. \"grants/s\" is after the first half second, in which " +
			"most let a burst through. \"over\" is how many more than 100 there were in the worst window of a second: for berth by the server's " +
			"clock, for others only grants whose request and answer both fell into it. \"commands\" are those sent, for each grant. " +
			"\"estimates\" is a rate of 100 tokens, of which each grant asks for 2 and uses 1, and \"settled\" says so when it gives the permit back. " +
			"\"100 clients\" wait with one goroutine each, as 100 processes do.",
	}
)

// The scenarios of lab.
var (
	Crash = Scenario{
		Key: "crash", Title: "Holders that crash", Limit: 3, Clients: 4, TTL: 500 * time.Millisecond,
		About: "3 processes hold the 3 permits, which time out after 500 ms, and 3 clients wait. The processes are killed (-9). " +
			"When all permits have come back, a fourth process is killed in the middle of its acquire, and one more client " +
			"comes while permits are free.",
	}
	Pause = Scenario{
		Key: "pause", Title: "A holder paused past its time-out", Limit: 1, Clients: 1, TTL: 300 * time.Millisecond,
		About: "A process holds the one permit, which times out after 300 ms, and works in steps of 5 ms, before each of which " +
			"it asks whether it may go on, if the algorithm lets it ask. It is stopped (SIGSTOP) until another client has had " +
			"the permit for 50 ms, and then goes on.",
	}
	Release = Scenario{
		Key: "release", Title: "An interrupted release", Limit: 1, Clients: 2, TTL: 300 * time.Millisecond,
		About: "One permit, which times out after 300 ms. While its holder releases, the connection is cut: in turns before " +
			"the request has arrived, when the program takes the error as final, as in the listings; and before the reply, " +
			"when the program releases once more. Another client waits.",
	}
	Fairness = Scenario{
		Key: "fairness", Title: "Fairness", Limit: 3, Clients: 30, Gap: 6 * time.Millisecond, Hold: 30 * time.Millisecond, TTL: chapterTTL,
		About: "30 clients come one after the other, 6 ms apart, and want one of 3 permits once, for 30 ms: " +
			"a queue builds up and drains. Then again from the beginning.",
	}
)
