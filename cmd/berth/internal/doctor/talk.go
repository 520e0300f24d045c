package doctor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/berth-go/berth/internal/quantile"
	"github.com/berth-go/berth/internal/words"
)

// The checks that talk to the server.

const (
	clockSamples = 12
	clockPause   = 40 * time.Millisecond
	roundTrips   = 50
	tripPause    = 60 * time.Millisecond // the mean of those between two, which are random
	// slow and tooSlow are round trips that delay hand-offs, and that berth gives up: see
	// "Time-outs" in docs/operations.md.
	slow    = 250 * time.Millisecond
	tooSlow = 2 * time.Second
	// A server mostly stands still if the median is this long, and ever so many times the fastest.
	still, stillTimes = 25 * time.Millisecond, 10
)

// bracket is the result of one TIME: the server's clock, minus the time since the check
// began, is between least and most.
type bracket struct{ least, most time.Duration }

// clock compares the server's clock with this machine's monotonic one. Each answer was made
// between its request and its reply, so it tells the difference of the clocks to within one
// round trip. If these intervals do not overlap, one of the clocks was stepped or runs wrong.
func (p *patient) clock(ctx context.Context, n node) Finding {
	began := time.Now()
	base := began.UnixMicro()
	var all []bracket
	var ahead time.Duration
	nearest := time.Hour
	tick := time.NewTicker(clockPause)
	defer tick.Stop()
	for range clockSamples {
		sent := time.Since(began)
		at, err := n.rdb.Time(ctx).Result()
		got := time.Since(began)
		if err != nil {
			return untried("The clock could not be read", "+time", err)
		}
		server := time.Duration(at.UnixMicro()-base) * time.Microsecond
		all = append(all, bracket{server - got, server - sent})
		if trip := got - sent; trip < nearest {
			nearest, ahead = trip, server-(sent+got)/2
		}
		<-tick.C
	}
	return clockFinding(all, ahead, nearest, time.Since(began))
}

// clockFinding judges the samples. ahead is by how much the server's clock leads
// this machine's, give or take trip.
func clockFinding(all []bracket, ahead, trip, took time.Duration) Finding {
	least, most := all[0].least, all[0].most
	for _, b := range all {
		least, most = max(least, b.least), min(most, b.most)
	}
	// The server counts microseconds, and berth tolerates clocks that run apart by a
	// hundredth.
	if apart := least - most - took/100 - time.Millisecond; apart > 0 {
		return fail("Let the server's clock be slewed, never stepped (chrony, or ntpd -x), and its machine not be suspended.",
			"the server's clock and this machine's drifted apart by %v in %v: a step forward ends leases early, "+
				"a step back keeps a crashed holder's permits", rounded(least-most), rounded(took))
	}
	const note = "berth uses the server's clock alone"
	if ahead.Abs() <= trip+time.Millisecond {
		return found("steady for %v, and the same as this machine's to within %v", rounded(took), rounded(trip))
	}
	side := "ahead of"
	if ahead < 0 {
		side = "behind"
	}
	return found("steady for %v; %v %s this machine's, which does not matter: %s", rounded(took), rounded(ahead.Abs()), side, note)
}

func rounded(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(time.Second)
	case d > 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// untried is the finding of a check that the server did not allow.
func untried(what, right string, err error) Finding {
	if denied(err) {
		return warn(fmt.Sprintf("Give the user %s (docs/operations.md has all the rights that berth needs).", right), "%s (%s)", what, short(err))
	}
	return fail("Look at the server's log and at the network between.", "%s (%s)", what, short(err))
}

// latency measures round trips at random moments of some seconds: where a server stands still again
// and again, those that follow each other at once mostly meet the moments in which it runs.
func (p *patient) latency(ctx context.Context, n node) Finding {
	var trips []time.Duration
	for range roundTrips {
		if wait(ctx, rand.N(2*tripPause)); ctx.Err() != nil && len(trips) > 0 {
			break
		}
		start := time.Now()
		err := n.rdb.Ping(ctx).Err()
		if err != nil && ctx.Err() != nil && len(trips) > 0 {
			break // the network is slow: what was measured tells
		}
		if err != nil && (!denied(err) || ctx.Err() != nil) {
			return untried(fmt.Sprintf("the server stopped answering after %s", words.Plural(len(trips), "round trip")), "+ping", err)
		}
		trips = append(trips, time.Since(start))
		if time.Since(start) > tooSlow {
			break
		}
	}
	slices.Sort(trips)
	return latencyFinding(trips[0], quantile.Of(trips, 0.5), quantile.Of(trips, 0.99))
}

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func latencyFinding(fastest, median, p99 time.Duration) Finding {
	numbers := fmt.Sprintf("a round trip takes %v (median), %v (p99)", rounded(median), rounded(p99))
	switch {
	case p99 >= tooSlow:
		return fail("Look for slow commands (SLOWLOG GET), swapping, and a distant or overloaded network.",
			"%s: berth gives a call up after 2 s and repeats it", numbers)
	case p99 >= slow:
		return warn("Look for slow commands (SLOWLOG GET), swapping, and a distant network; give leases a TTL of many round trips.",
			"%s: an acquire takes one, a hand-off two", numbers)
	case median >= still && median >= stillTimes*fastest:
		return warn("Look for a CPU limit or a busy machine (steal time), swapping, and slow commands (SLOWLOG GET).",
			"%s, where %v would do: the server, or the way to it, stands still most of the time", numbers, rounded(fastest))
	}
	return found("%s", numbers)
}

// messages publishes to a channel of the kind that berth uses and waits for the
// message to come back.
func (p *patient) messages(ctx context.Context, _ node) Finding {
	if p.looks {
		return unchecked("send messages and wait for them")
	}
	start := time.Now()
	err := p.hearOneself(ctx)
	switch {
	case err == nil:
		return found("a message came back after %v", rounded(time.Since(start)))
	case denied(err):
		return fail("Give the user the channels &PREFIX:* with publish and subscribe (in a Cluster spublish and ssubscribe).",
			"messages are not allowed (%s): waiters learn of a grant only when they ask, every few seconds", short(err))
	}
	return fail("Look for a proxy that does not carry pub/sub.",
		"a message did not come back (%s): waiters learn of a grant only when they ask, every few seconds", short(err))
}

// channel returns a channel among berth's that no client uses.
func (p *patient) channel() string {
	if p.clustered() {
		return p.Prefix + ":{" + p.own + "}:doctor"
	}
	return p.Prefix + ":inbox:" + p.own
}

// subscribe opens a subscription to the channel.
func (p *patient) subscribe(ctx context.Context) *redis.PubSub {
	if p.clustered() {
		return p.Redis.SSubscribe(ctx, p.channel())
	}
	return p.Redis.Subscribe(ctx, p.channel())
}

func (p *patient) hearOneself(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout/2)
	defer cancel()
	publish := p.Redis.Publish
	if p.clustered() {
		publish = p.Redis.SPublish
	}
	sub := p.subscribe(ctx)
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		return err
	}
	if err := publish(ctx, p.channel(), p.own).Err(); err != nil {
		return err
	}
	message, err := sub.ReceiveMessage(ctx)
	if err == nil && message.Payload != p.own {
		return errors.New("another message came back")
	}
	return err
}

// scripts checks whether the server remembers a script by its hash, and after how long it
// calls a script stuck.
func (p *patient) scripts(ctx context.Context, _ node) Finding {
	// KEYS makes a Cluster, and a proxy, choose the server.
	const text = "return {KEYS[1], ARGV[1]}"
	key := []string{p.Prefix + ":{" + p.own + "}"}
	script := redis.NewScript(text)
	if err := script.Eval(ctx, p.Redis, key, "1").Err(); p.looks && denied(err) {
		return unchecked("run scripts that write")
	} else if err != nil {
		return scriptFailed(err)
	}
	if err := script.EvalSha(ctx, p.Redis, key, "1").Err(); redis.HasErrorPrefix(err, "NOSCRIPT") {
		return warn("Connect to the server itself, without a proxy that spreads commands over several.",
			"the server forgets scripts at once: every call sends the whole text")
	} else if err != nil {
		return scriptFailed(err)
	}
	var f Finding
	for _, n := range p.nodes {
		f = worse(f, busy(ctx, n))
	}
	return f
}

func scriptFailed(err error) Finding {
	return fail("Give the user +eval and +evalsha, and let no rename-command disable them: berth is a script.",
		"scripts do not run (%s)", short(err))
}

// busy is about the time after which a running script is reported as stuck.
func busy(ctx context.Context, n node) Finding {
	text, known := n.setting(ctx, "lua-time-limit") // since Redis 7 a second name of busy-reply-threshold
	threshold, err := strconv.Atoi(text)
	if known && err == nil && threshold > 0 && threshold < 100 {
		return warn("Set busy-reply-threshold to its default, 5000.",
			"scripts run by hash; but others' scripts that take longer than %d ms make berth's calls fail with BUSY", threshold)
	}
	return found("scripts run by hash")
}
