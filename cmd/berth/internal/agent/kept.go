package agent

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/berth-go/berth"
)

// kept is what a client has: a permit, or several that begin and end together.
type kept struct {
	*hold
	leases berth.Leases    // the hold's
	lost   context.Context //nolint:containedctx // ends when the first of them does
	over   <-chan struct{} // lost has ended; nil once that was told
	until  time.Time       // the trust deadline that the client was told last, or is about to be
	look   *time.Timer     // when it may have been extended, or, after an eviction, when it comes
}

// keep tells the client of what happens to the lease until the hold ends, and gives the permit
// back. A client that is there is told before that, so that it can never believe to hold what
// another has; one that waits for the answer (errDone) is told after it.
func (k *kept) keep() {
	left := k.extend()
	k.look = time.NewTimer(k.nextLook())
	defer k.look.Stop()
	k.say(k.granted(left))
	k.held.Store(true)
	k.expectBeat()
	last, why := k.watch()
	k.agent.counts.ended(why)
	k.logLoss(why)
	if errors.Is(why, errDone) {
		select {
		case line := <-k.unsettled:
			k.say(line)
		default:
		}
		k.say(k.givenBack(k.leases.Release()))
		return
	}
	if last != nil {
		k.say(last)
	}
	k.conn.Close()
	_ = k.leases.Release() // what Redis does not do now, berth tries again, and the TTL does at last
}

// granted is the line that tells the client what it has.
func (k *kept) granted(left left) grantedLine {
	first := k.leases[0]
	line := grantedLine{Event: "granted", ID: first.ID(), Slot: first.Slot(), Token: first.Token(), Limit: limitOf(first.Limit()), left: left}
	if k.several {
		for _, l := range k.leases {
			line.All = append(line.All, grant{l.Name(), l.Slot(), l.Token(), limitOf(l.Limit())})
		}
	}
	return line
}

// ttl is that of all of them.
func (k *kept) ttl() time.Duration { return k.leases[0].TTL() }

// logLoss tells whoever runs the agent of a permit that its client has not given back itself.
func (k *kept) logLoss(why error) {
	if !errors.Is(why, errDone) && !errors.Is(why, errGone) {
		names := make([]string, len(k.leases))
		for i, l := range k.leases {
			names[i] = strconv.Quote(l.Name())
		}
		k.agent.options.Log("semaphore %s: %s has lost its permit: %s", strings.Join(names, ", "), &k.client, plain(why))
	}
}

// watch waits for the end of the hold, and returns the last line for the client, nil if there
// is none, and why it ended.
func (k *kept) watch() (last any, why error) {
	stopping := k.agent.running.Done()
	var grace <-chan time.Time
	for {
		select {
		case <-k.ctx.Done():
			why = k.cause()
			if errors.Is(why, errSilent) {
				last = lostLine{"lost", "silent", errSilent.Error()}
			}
			return last, why
		case <-k.over:
			k.over = nil
			if why = context.Cause(k.lost); !k.evicted(why) {
				return lostTo(why), why
			}
		case <-k.look.C:
			if k.over == nil { // evicted, and the time is up
				return lostTo(why), why
			}
			k.renewed()
		case line := <-k.unsettled:
			k.say(line)
		case <-stopping:
			stopping = nil
			grace = time.After(k.agent.options.Grace)
			k.say(stopLine{"stop", "shutdown", k.agent.options.Grace.Milliseconds()})
		case <-grace:
			return lostLine{"lost", "shutdown", errStopping.Error()}, errStopping
		}
	}
}

// evicted tells the client to stop, if an operator took the lease away, which it can rely on
// until its deadline. It reports whether there is time left until then.
func (k *kept) evicted(why error) bool {
	left := time.Until(k.until)
	if !errors.Is(why, berth.ErrEvicted) || left <= 0 {
		return false
	}
	k.look.Reset(left)
	k.say(stopLine{"stop", "evicted", left.Milliseconds()})
	return true
}

// renewed looks whether the lease was renewed, and tells the client. Nothing tells the agent:
// berth renews a lease when a third of its time has passed.
func (k *kept) renewed() {
	before := k.until
	if left := k.extend(); k.until.Sub(before) > k.ttl()/8 {
		k.say(renewedLine{"renewed", left})
	} else {
		k.until = before // what is not worth a line is not told later, either
	}
	k.look.Reset(k.nextLook())
}

// extend reads the trust deadline. The clock that counts suspension is read first: a process
// that is stopped, or a machine that sleeps, between the two readings makes the deadline early
// and never late.
func (k *kept) extend() left {
	now := boottime()
	k.until = k.leases.ValidUntil()
	remaining := max(time.Until(k.until), 0)
	return left{UntilBoot: (now + remaining).Milliseconds(), Remaining: remaining.Milliseconds()}
}

// nextLook is when the lease should have been renewed: a third of the TTL after the last time,
// and a little. If it was not, the next look comes soon.
func (k *kept) nextLook() time.Duration {
	ttl := k.ttl()
	return max(time.Until(k.until)-ttl*5/8, ttl/12)
}

// givenBack is the answer to a client that waits for it.
func (k *kept) givenBack(err error) any {
	switch {
	case err == nil:
		return releasedLine{Event: "released"}
	case errors.Is(err, berth.ErrLost):
		return lostTo(err)
	}
	return releasedLine{"released", "redis has not confirmed it: if it did not happen, the permit is free after its TTL: " + plain(err)}
}
