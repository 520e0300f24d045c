package protocol

import (
	"testing"
	"time"
)

// TestShortWay tells a story in which every call takes the short way. The model
// watches, so the story needs no expectations of its own.
func TestShortWay(t *testing.T) {
	t.Parallel()
	all, acquire, release := ids(20), Op{Verb: Acquire, Terms: terms(6)}, Op{Verb: Release}
	narrow := Op{Verb: Acquire, Terms: terms(6, func(t *Terms) { t.QueueLimit = 4 })}
	capped := Op{Verb: Acquire, Terms: terms(6, func(t *Terms) { t.MaxHold = time.Second; t.Weight = 2 })}
	heavy := Op{Verb: Acquire, Terms: terms(6, func(t *Terms) { t.Weight = 6 })}
	calls := [][]Op{
		each(acquire, all[:6]...),
		each(acquire, all[6:9]...),            // all wait
		each(release, all[4], all[1], all[2]), // three hand-offs, to slots 1, 2 and 4 in this order
		append(each(release, all[5], all[0], all[3]), each(acquire, all[9:12]...)...), // slots 0, 3 and 5
		each(narrow, all[12:15]...), // all wait
		append(each(narrow, all[15]), each(narrow, all[16])...),
		each(narrow, all[17], all[18]),                           // the queue is full
		append(each(release, all[6]), each(acquire, all[19])...), // one in, one waits
		each(release, all[7:12]...),                              // room for all who wait
		each(release, all[12:16]...),
		each(capped, all[0], all[1]),
		each(release, all[19], all[0]),
		each(release, all[1]), // the last
		each(acquire, all[2]), // in the same microsecond
		each(heavy, all[3]),
		each(acquire, all[4]), // it would fit, and must not overtake
		each(release, all[2]),
		each(release, all[3]),
		each(release, all[4]),
	}
	for _, f := range []form{{}, {keeps: true}} {
		for _, pause := range []time.Duration{0, time.Millisecond} {
			tr, clock := newTrial(t, embedded(t, f)), start
			for _, ops := range calls {
				clock = clock.Add(pause)
				tr.timed(t, event{ops: ops}, clock)
			}
		}
	}
}
